"""The orders of jobs: one frozen value for each kind of work, stored as JSON in the job's folder.

Each describes itself in a few words, and gives the number of cores it needs and the equivalent command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from driftline.checking.aspects import MOST_CALLS
from driftline.core.quoting import one_line, shell
from driftline.report.words import duration


@dataclass(frozen=True)
class HuntOrder:
    """The order of a hunt: make programs, and run them on the compilers."""

    seconds: float
    targets: str = ""  # empty: every compiler that is here
    generators: tuple[str, ...] = ()  # empty: the usual ones
    seed: int = 0
    jobs: int = 1
    diagnose: bool = False
    accept: tuple[str, ...] = ()

    def title(self) -> str:
        return f"Hunt for {duration(self.seconds)} on {one_line(self.targets, 80) or 'every compiler'}"

    def command(self, folder: Path) -> list[str]:
        words = ["hunt", "--budget", f"{self.seconds:g}s", "--seed", str(self.seed), "--jobs", str(self.jobs)]
        words += ["--targets", self.targets] if self.targets else []
        words += ["--generators", ",".join(self.generators)] if self.generators else []
        words += [word for one in self.accept for word in ("--accept", one)]
        return [*words, *(["--diagnose"] if self.diagnose else [])]


@dataclass(frozen=True)
class AuditOrder:
    """The order of an audit: fire the rewrite rules of compilers, and check the results."""

    seconds: float
    compilers: str = ""  # empty: all whose rules are known
    only: str = ""
    seed: int = 0
    jobs: int = 1

    def title(self) -> str:
        rules = f"rules {one_line(self.only, 60)!r}" if self.only else "the rewrite rules"
        return f"Audit {rules} of {one_line(self.compilers, 80) or 'every compiler'} for {duration(self.seconds)}"

    def command(self, folder: Path) -> list[str]:
        words = ["patterns", "audit", "--budget", f"{self.seconds:g}s", "--seed", str(self.seed)]
        words += ["--jobs", str(self.jobs), *(["--compilers", self.compilers] if self.compilers else [])]
        return [*words, *(["--only", self.only] if self.only else [])]


@dataclass(frozen=True)
class DiagnosisOrder:
    """The order to explain a bug."""

    bug: str
    seconds: float
    jobs: int = 1

    def title(self) -> str:
        return f"Explain {self.bug} in {duration(self.seconds)}"

    def command(self, folder: Path) -> list[str]:
        return ["diagnose", self.bug, "--budget", f"{self.seconds:g}s"]


@dataclass(frozen=True)
class CheckOrder:
    """The order to run one program, stored in the job's folder, on the compilers."""

    file: str  # in the folder of the job
    shown: str  # the user's name for it
    function: str = ""  # of a Python file
    targets: str = ""
    inputs: str = "example"
    samples: int = 1
    seed: int = 0
    jobs: int = 1
    grad: bool | None = None
    calls: int = MOST_CALLS
    accept: tuple[str, ...] = ()

    def title(self) -> str:
        return f"Check {one_line(self.shown, 80)} on {one_line(self.targets, 80) or 'the usual compilers'}"

    def program(self, folder: Path) -> str:
        """Return the program in the form that `driftline check` accepts."""
        return f"{folder / self.file}:{self.function}" if self.function else str(folder / self.file)

    def command(self, folder: Path) -> list[str]:
        words = ["check", self.program(folder), "--inputs", self.inputs, "--samples", str(self.samples)]
        words += ["--seed", str(self.seed), "--jobs", str(self.jobs)]
        words += ["--targets", self.targets] if self.targets else []
        words += [word for one in self.accept for word in ("--accept", one)]
        words += ["--calls", str(self.calls)] if self.calls != MOST_CALLS else []
        return [*words, *([] if self.grad is None else ["--grad" if self.grad else "--no-grad"])]


JobOrder = HuntOrder | AuditOrder | DiagnosisOrder | CheckOrder


def typed_command(order: JobOrder, folder: Path, store: Path, plugins: Sequence[str]) -> str:
    """Return the terminal command that does the same as the order."""
    named = [] if isinstance(order, AuditOrder) else [word for path in plugins for word in ("--plugin", path)]
    return shell(["driftline", *order.command(folder), "--store", store, *named])
