"""The result of `driftline perf check`: a row for each target and baseline, as printed by `--json`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from driftline.measure.estimate import Estimate
from driftline.perf.comparison import SLOW, UNMEASURED, RatioMeasured

SCHEMA = 1


@dataclass(frozen=True)
class PerfRow:
    """The result for one target and one baseline."""

    target: str
    against: str
    conclusion: str
    measured: tuple[RatioMeasured, ...] = ()  # the first time, and the confirmation
    floor: float | None = None  # the noise of the machine: the baseline against itself
    problem: str = ""
    bug: str = ""  # its name in the store, where it is a finding

    @property
    def found(self) -> bool:
        return self.conclusion == SLOW


@dataclass(frozen=True)
class GrowthRow:
    """The growth of compile time and memory of one target with the size of the program."""

    target: str
    nodes: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()  # CPU time of compiling, the median at each size
    memory: tuple[int, ...] = ()  # peak bytes while compiling, beyond the empty process
    time_exponents: tuple[Estimate, ...] = ()  # the first time, and the confirmation
    memory_exponents: tuple[Estimate, ...] = ()
    found: tuple[str, ...] = ()  # kinds: slow-compile, memory
    problem: str = ""
    bugs: tuple[str, ...] = ()


@dataclass(frozen=True)
class PerfRun:
    """The whole result of `driftline perf check`."""

    program: str
    ratio: float
    exponent: float
    rounds: int
    rows: tuple[PerfRow, ...] = ()
    growth: tuple[GrowthRow, ...] = ()
    schema: int = SCHEMA

    @property
    def found(self) -> bool:
        return any(row.found for row in self.rows) or any(row.found for row in self.growth)

    @property
    def measured(self) -> bool:
        return any(row.measured for row in self.rows) or any(row.time_exponents for row in self.growth)

    def with_row(self, row: PerfRow) -> PerfRun:
        return replace(self, rows=(*self.rows, row))

    def with_growth(self, row: GrowthRow) -> PerfRun:
        return replace(self, growth=(*self.growth, row))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def unmeasured_row(target: str, against: str, problem: str) -> PerfRow:
    return PerfRow(target, against, UNMEASURED, problem=problem)
