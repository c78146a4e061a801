"""Measure whether compile time or memory grows faster than the program, by repeating the program to 10, 20, 40, ...
nodes and compiling it.

Every size is compiled in a fresh process, all sizes in turn, several times. The measured time is the CPU time to the
first result minus one ordinary call. A finding is an exponent whose interval lies beyond the limit in two such series.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median

from driftline.checking.checker import Checker
from driftline.checking.timed import contestant_of, why_unusable
from driftline.core.case import Case
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.core.verdict import Kind
from driftline.measure.contestant import Untimed
from driftline.measure.estimate import Estimate
from driftline.measure.growth import FEWEST_SIZES, exponent_of
from driftline.perf.repeated import own_nodes, repeated_case
from driftline.perf.result import GrowthRow

EXPONENT = 1.5  # growing faster than this is a finding
LEAST_SECONDS = 0.5  # least time to compile the largest program: less is not worth reporting
LEAST_BYTES = 64 << 20


def sizes_to(nodes: int) -> tuple[int, ...]:
    """Return 10, 20, 40, ... up to `nodes`."""
    return tuple(10 << doubled for doubled in range((nodes // 10).bit_length()))


SIZES = sizes_to(320)


@dataclass(frozen=True)
class GrowthEffort:
    """The limits of a growth measurement."""

    sizes: tuple[int, ...] = SIZES
    passes: int = 3  # of all sizes, in each series
    series: int = 2  # the second series confirms the first; a single one is not confirmed
    seconds: float = 60.0  # of CPU for one program: no larger one is compiled after that
    timeout: float = 900.0


@dataclass
class _Series:
    """The measurements at each size, by passes."""

    seconds: list[list[float]] = field(default_factory=list)
    memory: list[list[float]] = field(default_factory=list)

    def exponents(self, nodes: tuple[int, ...]) -> tuple[Estimate, Estimate]:
        return exponent_of(nodes, self.seconds), exponent_of(nodes, self.memory)


class Grower:
    """Measures how the costs of one program grow on targets, by repeating it to several sizes."""

    def __init__(
        self, checker: Checker, case: Case, effort: GrowthEffort, limit: float, tell: Callable[[str], None]
    ) -> None:
        self._checker = checker
        self._case = case
        self._effort = effort
        self._limit = limit
        self._tell = tell
        self._made: dict[int, Case] = {}
        self._own = own_nodes(case.program)

    def measure(self, target: Target) -> GrowthRow:
        """Measure how compile time and memory grow on a target."""
        row = GrowthRow(str(target))
        if len(self._copies()) <= FEWEST_SIZES:
            told = f"the program has {self._own} operators, and at most {max(self._effort.sizes)} make too few sizes"
            return replace(row, problem=f"{told} to see how it grows; raise --nodes")
        try:
            nodes, first = self._series(target, tuple(sorted(self._copies())))
            if len(nodes) <= FEWEST_SIZES:
                return replace(row, problem=f"only {len(nodes)} sizes were compiled in the time; raise --seconds")
            row = self._described(row, nodes, first)
            exponents = [first.exponents(nodes)]
            found = self._beyond(row, exponents)
            if found and self._effort.series > 1:
                copies = tuple(count for count in sorted(self._copies()) if count * self._own in nodes)
                confirmed, second = self._series(target, copies)
                if confirmed == nodes:
                    exponents.append(second.exponents(nodes))
                    found = self._beyond(row, exponents)
                else:
                    found = ()
        except (DriftlineError, Untimed) as error:
            return replace(row, problem=first_line(str(error)))
        times, memories = zip(*exponents, strict=True)
        return replace(row, time_exponents=times, memory_exponents=memories, found=found)

    def _copies(self) -> set[int]:
        return {max(1, round(size / self._own)) for size in self._effort.sizes}

    def _described(self, row: GrowthRow, nodes: tuple[int, ...], taken: _Series) -> GrowthRow:
        seconds = tuple(median(values) for values in taken.seconds)
        return replace(row, nodes=nodes, seconds=seconds, memory=tuple(int(median(values)) for values in taken.memory))

    def _beyond(self, row: GrowthRow, exponents: list[tuple[Estimate, Estimate]]) -> tuple[str, ...]:
        found = []
        if row.seconds[-1] >= LEAST_SECONDS and all(time.low > self._limit for time, _ in exponents):
            found.append(str(Kind.SLOW_COMPILE))
        if row.memory[-1] >= LEAST_BYTES and all(memory.low > self._limit for _, memory in exponents):
            found.append(str(Kind.MEMORY))
        return tuple(found)

    def _series(self, target: Target, copies: tuple[int, ...]) -> tuple[tuple[int, ...], _Series]:
        """Measure each size several times, in turn, so that a temporary disturbance affects all sizes."""
        taken = _Series([[] for _ in copies], [[] for _ in copies])
        for number in range(self._effort.passes):
            for at, count in enumerate(copies):
                told = f"{count * self._own} nodes, pass {number + 1} of {self._effort.passes}"
                self._tell(told)
                seconds, memory = self._compiled(target, count)
                taken.seconds[at].append(seconds)
                taken.memory[at].append(memory)
                if number == 0 and seconds > self._effort.seconds:
                    copies = copies[: at + 1]
                    del taken.seconds[at + 1 :], taken.memory[at + 1 :]
                    break
        return tuple(count * self._own for count in copies), taken

    def _compiled(self, target: Target, copies: int) -> tuple[float, float]:
        """Return the CPU seconds and peak bytes of compiling `copies` copies."""
        case = self._repeated(copies)
        form = self._checker.form_for(case, target)
        if isinstance(form, Execution):
            told = first_line(str(form.failure or form.problem))
            raise DriftlineError(f"{copies * self._own} nodes: {form.outcome.lower()}: {told}")
        with contestant_of(self._checker, case, target, form, self._effort.timeout) as made:
            if not made.usable:
                raise DriftlineError(f"{copies * self._own} nodes: {made.kept.outcome.lower()}: {why_unusable(made)}")
            call = made.time(1).cpu
            return max(made.kept.first_cpu - call, 1e-4), float(max(made.compile_peak, 1))

    def _repeated(self, copies: int) -> Case:
        if copies not in self._made:
            self._made[copies] = repeated_case(self._checker, self._case, copies)
        return self._made[copies]
