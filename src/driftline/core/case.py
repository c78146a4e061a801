"""A case: everything needed to ask the question again. The unit that is saved, replayed and reduced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.tensors import Arrays

LONGEST_TIMEOUT = 7 * 86400.0  # seconds; a stored case with a longer time-out is damaged


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
    accept: tuple[str, ...] = ()  # arithmetic that the person accepts, as `POLICY` or `TARGET=POLICY`
    stress: bool = False  # several threads call a compiled program at the same time, too

    def to_json(self) -> dict[str, Any]:
        return {
            "grad": self.grad,
            "seed": self.seed,
            "timeout": self.timeout,
            "memory_limit": self.memory_limit,
            "signed_zero": self.signed_zero,
            "oracle": self.oracle,
            "plugins": list(self.plugins),
            **({"accept": list(self.accept)} if self.accept else {}),  # other cases keep the id they always had
            **({"stress": True} if self.stress else {}),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> CheckOptions:
        """Read stored options. Raises `ValueError` or `TypeError` for options that no check has."""
        if not isinstance(value, Mapping):
            raise TypeError("the options are no object")
        known = {key: type(default)(value[key]) for key, default in vars(CheckOptions()).items() if key in value}
        found = CheckOptions(**known)
        if not (0 < found.timeout <= LONGEST_TIMEOUT and found.memory_limit > 0):
            raise ValueError("the limits of time and memory are none")
        return found


@dataclass(frozen=True)
class Deployed:
    """The file that targets run where another program, the reference, says what is right (`check --reference`)."""

    program: Program
    inputs: Mapping[str, str]  # the reference's name of an input -> the file's name of it

    def to_json(self) -> dict[str, Any]:
        return {"program": self.program.to_json(), "inputs": dict(self.inputs)}

    @staticmethod
    def from_json(value: Mapping[str, Any], path: Path) -> Deployed:
        return Deployed(Program.from_json(value["program"], path), dict(value["inputs"]))


@dataclass(frozen=True, eq=False)
class Case:
    """One program, its input samples, the targets to run it on. `program` says what is right; targets run it too,
    unless there is a `deployed` file that takes its place."""

    program: Program
    samples: tuple[Inputs, ...]
    targets: tuple[Target, ...]
    options: CheckOptions
    deployed: Deployed | None = None

    @property
    def runs(self) -> Program:
        """What the targets are given."""
        return self.deployed.program if self.deployed else self.program

    def only(self, target: Target) -> Case:
        return replace(self, targets=(target,))
