"""Time one model on one target: compiled in a process of its own, in turn with eager in another.

Failures of the target are recorded in its row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from driftline.backends import resolve
from driftline.bench.options import BenchOptions
from driftline.bench.result import BenchRow, Clocked
from driftline.checking.checker import Checker, TakenForm
from driftline.checking.timed import baseline_of, contestant_of, why_unusable
from driftline.core.case import Case
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution, Outcome
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.measure.contestant import Contestant, Untimed
from driftline.measure.estimate import median_of, ratio_of
from driftline.measure.rounds import RoundLimits, Rounds, Timing, by_clock, interleave

UNAVAILABLE = "UNAVAILABLE"
Tell = Callable[[str], None]  # receives the current activity


def timed_row(
    checker: Checker, model: str, case: Case, target: Target, *, options: BenchOptions, tell: Tell
) -> BenchRow:
    """Time the program of a case on a target against eager. Eager itself is timed against eager, which shows the
    noise.
    """
    row = BenchRow(model, str(target), clock="cpu" if target.device == "cpu" else "wall")
    found = resolve(target).installed()
    if not found.available and not target.version:
        return replace(row, outcome=UNAVAILABLE, stage="", problem=f"{found.reason}; {resolve(target).install_command}")
    try:
        tell("converting")
        form = checker.form_for(case, target)
        if isinstance(form, Execution):
            return _not_converted(row, form)
        if form.converter:
            row = replace(row, converter=form.converter, convert_seconds=form.seconds or None)
        with contextlib.ExitStack() as held:
            tell("compiling")
            tested = held.enter_context(contestant_of(checker, case, target, form, options.timeout))
            row = _described(row, tested)
            if not tested.usable:
                return row
            baseline = baseline_of(target)
            eager = held.enter_context(contestant_of(checker, case, baseline, TakenForm(case.program), options.timeout))
            if not eager.usable:
                return replace(row, outcome=str(Outcome.ERROR), problem=f"{baseline} fails: {why_unusable(eager)}")
            limits = RoundLimits(options.repeat, options.seconds)
            taken = interleave(eager, tested, limits, tell=lambda done, of: tell(f"round {done + 1} of {of}"))
            return _with_times(row, tested, taken)
    except (Untimed, DriftlineError) as error:
        return replace(row, outcome=str(Outcome.ERROR), problem=first_line(str(error)))


def _not_converted(row: BenchRow, execution: Execution) -> BenchRow:
    return replace(
        row,
        outcome=str(execution.outcome),
        stage=str(execution.stage),
        converter=execution.converter,
        problem=first_line(str(execution.failure or execution.problem)),
    )


def _described(row: BenchRow, tested: Contestant) -> BenchRow:
    """Return the row with the facts about the compilation."""
    kept = tested.kept
    return replace(
        row,
        version=kept.version,
        outcome=str(kept.outcome),
        stage=str(kept.stage),
        problem=why_unusable(tested),
        compile_peak=tested.compile_peak or None,
        graphs=kept.facts.graphs,
        breaks=kept.facts.breaks,
        violations=kept.facts.violations,
    )


def _with_times(row: BenchRow, tested: Contestant, taken: Rounds) -> BenchRow:
    eager, own = _clocked(taken.first), _clocked(taken.second)
    latency, cpu = median_of(own.wall), median_of(own.cpu)
    return replace(
        row,
        wall=latency,
        cpu=cpu,
        compile_seconds=max(tested.kept.first_result - latency.value, 0.0),
        compile_cpu=max(tested.kept.first_cpu - cpu.value, 0.0),
        speedup=ratio_of(eager.by(row.clock), own.by(row.clock)),
        run_peak=tested.run_peak or None,
        rounds=own,
        eager_rounds=eager,
    )


def _clocked(timings: Sequence[Timing]) -> Clocked:
    return Clocked(tuple(by_clock(timings, "wall")), tuple(by_clock(timings, "cpu")))
