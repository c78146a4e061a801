"""Compare two runs of the suite, and report changes beyond noise.

A machine is never in the same state twice, so the compared quantity is a target's speed-up against eager, measured in
the same rounds. The speed-up changed if the bootstrap interval of the change lies beyond the noise of both runs.
Compile time is measured once in a run, and memory is the peak of the process, so only large changes of these count.
Graphs, violations and verdicts are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from driftline.bench.result import BenchRow, BenchRun
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.measure.estimate import Estimate, beyond, change_of

LEAST_NOISE = 1.03  # between two runs: a process may be placed in memory with more or less luck
COMPILE_FACTOR, COMPILE_SECONDS = 1.5, 1.0
MEMORY_FACTOR, MEMORY_BYTES = 1.1, 16 << 20
_RANK = {"pass": 0, "reduced-precision": 1, "inconclusive": 2, "rejected": 2, "": 2, "fail": 3}


@dataclass(frozen=True)
class BenchChange:
    """One change in one row."""

    model: str
    target: str
    what: str  # speed, compile, memory, graphs, breaks, violations, verdict, outcome
    before: str
    after: str
    worse: bool
    factor: Estimate | None = None  # of a speed: how many times longer it takes now, eager set aside


@dataclass(frozen=True)
class BenchComparison:
    """The changes from one run to another."""

    before: str
    after: str
    changes: tuple[BenchChange, ...]
    compared: int  # rows in both
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        return any(change.worse for change in self.changes)

    def to_json(self) -> dict[str, Any]:
        return {"schema": 1, **asdict(self), "worse": self.worse}


def compare_runs(before: BenchRun, after: BenchRun, names: tuple[str, str] = ("before", "after")) -> BenchComparison:
    """Return the changes beyond noise. Raise for runs with different settings."""
    for setting in ("size", "dtype"):
        one, other = getattr(before, setting), getattr(after, setting)
        if one != other:
            raise DriftlineError(
                f"{names[0]} has the {setting} {one} and {names[1]} the {setting} {other}: measure both alike."
            )
    old = {(row.model, row.target): row for row in before.rows}
    new = {(row.model, row.target): row for row in after.rows}
    both = [key for key in old if key in new]
    changes = [change for key in both for change in _changes(old[key], new[key], before, after)]
    return BenchComparison(
        *names,
        tuple(changes),
        len(both),
        tuple(" on ".join(key) for key in old if key not in new),
        tuple(" on ".join(key) for key in new if key not in old),
        tuple(_notes(before, after, names)),
    )


def _changes(old: BenchRow, new: BenchRow, before: BenchRun, after: BenchRun) -> Iterator[BenchChange]:
    if old.outcome != new.outcome:
        yield _change(old, "outcome", old.outcome, _told(new), worse=old.outcome == "OK")
    if old.verdict and new.verdict and old.verdict != new.verdict:
        worse = _RANK.get(new.verdict, 2) > _RANK.get(old.verdict, 2)
        yield _change(old, "verdict", old.verdict, f"{new.verdict}: {new.reason}", worse=worse)
    for what in ("graphs", "violations"):
        one, other = getattr(old, what), getattr(new, what)
        if one is not None and other is not None and one != other:
            yield _change(old, what, str(one), str(other), worse=other > one)
    if len(old.breaks) != len(new.breaks):
        worse = len(new.breaks) > len(old.breaks)
        yield _change(old, "breaks", str(len(old.breaks)), str(len(new.breaks)), worse=worse)
    yield from _speed(old, new, max(LEAST_NOISE, before.noise_of(old), after.noise_of(new)))
    yield from _amounts(old, new)


def _speed(old: BenchRow, new: BenchRow, floor: float) -> Iterator[BenchChange]:
    """Yield the change of the speed-up against eager, if it is beyond the noise."""
    if Target.parse(old.target).backend == "eager" or not (old.speedup and new.speedup):
        return
    change = change_of(_ratios(old), _ratios(new))
    if side := beyond(change, floor):
        yield _change(
            old, "speed", f"{old.speedup.value:.2f}x", f"{new.speedup.value:.2f}x", worse=side > 0, factor=change
        )


def _ratios(row: BenchRow) -> list[float]:
    assert row.rounds and row.eager_rounds
    return [own / eager for own, eager in zip(row.rounds.by(row.clock), row.eager_rounds.by(row.clock), strict=True)]


def _amounts(old: BenchRow, new: BenchRow) -> Iterator[BenchChange]:
    one, other, of = old.compile_cpu, new.compile_cpu, "CPU time"
    if one is None or other is None:  # of a run before it was kept
        one, other, of = old.compile_seconds, new.compile_seconds, ""
    if one is not None and other is not None and _differ(one, other, COMPILE_FACTOR, COMPILE_SECONDS):
        yield _change(old, "compile", f"{one:.1f} s", f"{other:.1f} s {of}".strip(), worse=other > one)
    peak, now = old.run_peak, new.run_peak
    if peak is not None and now is not None and _differ(peak, now, MEMORY_FACTOR, MEMORY_BYTES):
        yield _change(old, "memory", f"{peak >> 20} MiB", f"{now >> 20} MiB", worse=now > peak)


def _differ(one: float, other: float, factor: float, least: float) -> bool:
    return abs(one - other) >= least and max(one, other) > factor * min(one, other)


def _change(
    row: BenchRow, what: str, before: str, after: str, *, worse: bool, factor: Estimate | None = None
) -> BenchChange:
    return BenchChange(row.model, row.target, what, before, after, worse, factor)


def _told(row: BenchRow) -> str:
    return f"{row.outcome}: {row.problem}" if row.problem else row.outcome


def _notes(before: BenchRun, after: BenchRun, names: tuple[str, str]) -> Iterator[str]:
    if before.machine != after.machine:
        yield f"The machines differ: {before.machine}, and {after.machine}."
    if before.driftline != after.driftline:
        yield f"Driftline {before.driftline}, and {after.driftline}."
    for name, run in zip(names, (before, after), strict=True):
        if not run.complete:
            yield f"{name} did not come to its end."
    versions = {row.target: row.version for row in before.rows}
    for target, version in {row.target: row.version for row in after.rows}.items():
        if version and versions.get(target) and versions[target] != version:
            yield f"{target}: {versions[target]}, and {version}."
