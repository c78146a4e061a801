"""One model on one target: compiled in a process of its own, and timed in turn with eager in another.

Whatever goes wrong with the target is written into its row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from driftline.backends import resolve
from driftline.bench.result import BenchRow, Clocked
from driftline.checking.checker import Checker, TakenForm
from driftline.checking.kinds import worker_for_target
from driftline.checking.written import write_case
from driftline.core.case import Case
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution, Outcome
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.measure.contestant import Contestant, Untimed, contestant
from driftline.measure.estimate import median_of, ratio_of
from driftline.measure.rounds import Rounds, Timing, by_clock, interleave

UNAVAILABLE = "UNAVAILABLE"
Tell = Callable[[str], None]  # what is being done now


def baseline_of(target: Target) -> Target:
    """Eager on the same device."""
    return Target("eager", None, (("device", target.device),) if target.device != "cpu" else ())


def timed_row(
    checker: Checker, model: str, case: Case, target: Target, *, rounds: int, seconds: float, timeout: float, tell: Tell
) -> BenchRow:
    """Time the program of a case on a target against eager; eager itself against eager, which shows the noise."""
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
            tested = held.enter_context(_contestant(checker, case, target, form, timeout))
            row = _described(row, tested)
            if not tested.usable:
                return row
            baseline = baseline_of(target)
            eager = held.enter_context(_contestant(checker, case, baseline, TakenForm(case.program), timeout))
            if not eager.usable:
                return replace(row, outcome=str(Outcome.ERROR), problem=f"{baseline} fails: {_why(eager)}")
            taken = interleave(
                eager, tested, rounds, seconds=seconds, tell=lambda done, of: tell(f"round {done + 1} of {of}")
            )
            return _with_times(row, tested, taken)
    except (Untimed, DriftlineError) as error:
        return replace(row, outcome=str(Outcome.ERROR), problem=first_line(str(error)))


def _contestant(
    checker: Checker, case: Case, target: Target, form: TakenForm, timeout: float
) -> contextlib.AbstractContextManager[Contestant]:
    backend = resolve(target)
    files = write_case(checker.pool.workspace, case, form.program)
    kind = worker_for_target(backend, target, case.options.plugins)
    return contestant(checker.pool, kind, files, target.backend, backend.told(target.told), timeout=timeout)


def _not_converted(row: BenchRow, execution: Execution) -> BenchRow:
    return replace(
        row,
        outcome=str(execution.outcome),
        stage=str(execution.stage),
        converter=execution.converter,
        problem=first_line(str(execution.failure or execution.problem)),
    )


def _described(row: BenchRow, tested: Contestant) -> BenchRow:
    """What is known once it is compiled, or was not."""
    kept = tested.kept
    return replace(
        row,
        version=kept.version,
        outcome=str(kept.outcome),
        stage=str(kept.stage),
        problem=_why(tested),
        compile_peak=tested.compile_peak or None,
        graphs=kept.facts.graphs,
        breaks=kept.facts.breaks,
        violations=kept.facts.violations,
    )


def _why(tested: Contestant) -> str:
    kept = tested.kept
    return first_line(kept.problem or str(kept.failure or ("" if tested.usable else kept.outcome)))


def _with_times(row: BenchRow, tested: Contestant, taken: Rounds) -> BenchRow:
    eager, own = _clocked(taken.first), _clocked(taken.second)
    latency = median_of(own.wall)
    return replace(
        row,
        wall=latency,
        cpu=median_of(own.cpu),
        compile_seconds=max(tested.kept.first_result - latency.value, 0.0),
        speedup=ratio_of(eager.by(row.clock), own.by(row.clock)),
        run_peak=tested.run_peak or None,
        rounds=own,
        eager_rounds=eager,
    )


def _clocked(timings: Sequence[Timing]) -> Clocked:
    return Clocked(tuple(by_clock(timings, "wall")), tuple(by_clock(timings, "cpu")))
