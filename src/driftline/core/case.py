"""A case: everything needed to repeat a check of one program. Cases are stored, replayed and reduced."""

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
    """Named arrays, and their origin (`example`, `random seed=3`, a file)."""

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
    accept: tuple[str, ...] = ()  # arithmetic that the user accepts, as `POLICY` or `TARGET=POLICY`
    stress: bool = False  # also call the compiled program from several threads at the same time

    def to_json(self) -> dict[str, Any]:
        return {
            "grad": self.grad,
            "seed": self.seed,
            "timeout": self.timeout,
            "memory_limit": self.memory_limit,
            "signed_zero": self.signed_zero,
            "oracle": self.oracle,
            "plugins": list(self.plugins),
            **({"accept": list(self.accept)} if self.accept else {}),  # older cases keep their ids
            **({"stress": True} if self.stress else {}),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> CheckOptions:
        """Read stored options. Raises `ValueError` or `TypeError` for invalid ones."""
        if not isinstance(value, Mapping):
            raise TypeError("the options are no object")
        known = {key: type(default)(value[key]) for key, default in vars(CheckOptions()).items() if key in value}
        found = CheckOptions(**known)
        if not (0 < found.timeout <= LONGEST_TIMEOUT and found.memory_limit > 0):
            raise ValueError("the limits of time and memory are none")
        return found


@dataclass(frozen=True)
class Deployed:
    """The file that targets run instead of the program, which then is the reference (`check --reference`)."""

    program: Program
    inputs: Mapping[str, str]  # the reference's name of an input -> the file's name

    def to_json(self) -> dict[str, Any]:
        return {"program": self.program.to_json(), "inputs": dict(self.inputs)}

    @staticmethod
    def from_json(value: Mapping[str, Any], path: Path) -> Deployed:
        return Deployed(Program.from_json(value["program"], path), dict(value["inputs"]))


@dataclass(frozen=True, eq=False)
class Case:
    """One program, its input samples, and the targets to run it on. `program` defines the right results; targets run it
    too, unless a `deployed` file replaces it."""

    program: Program
    samples: tuple[Inputs, ...]
    targets: tuple[Target, ...]
    options: CheckOptions
    deployed: Deployed | None = None

    @property
    def runs(self) -> Program:
        """The program that the targets run."""
        return self.deployed.program if self.deployed else self.program

    def only(self, target: Target) -> Case:
        """Return the case with this target alone."""
        return replace(self, targets=(target,))
