"""A case: everything needed to ask the question again. The unit that is saved, replayed and reduced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.tensors import Arrays


@dataclass(frozen=True, eq=False)
class Inputs:
    """Named arrays, and where they came from (`example`, `random seed=3`, a file)."""

    arrays: Arrays
    origin: str


@dataclass(frozen=True)
class CheckOptions:
    """How a case is run and judged; all of it is stored with the case."""

    grad: bool = False
    seed: int = 0
    timeout: float = 300.0
    memory_limit: int = 8 << 30
    signed_zero: bool = False
    oracle: str = "shadow"
    plugins: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "grad": self.grad,
            "seed": self.seed,
            "timeout": self.timeout,
            "memory_limit": self.memory_limit,
            "signed_zero": self.signed_zero,
            "oracle": self.oracle,
            "plugins": list(self.plugins),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> CheckOptions:
        return CheckOptions(**{**value, "plugins": tuple(value["plugins"])})


@dataclass(frozen=True, eq=False)
class Case:
    """One program, its input samples, the targets to run it on."""

    program: Program
    samples: tuple[Inputs, ...]
    targets: tuple[Target, ...]
    options: CheckOptions

    def only(self, target: Target) -> Case:
        return replace(self, targets=(target,))
