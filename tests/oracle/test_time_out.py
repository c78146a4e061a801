"""Slow is no failure; what ends in no time without the compiler, and never with it, hangs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driftline.checking.checker import CheckOutcome, TargetResult
from driftline.checking.compile_times import slow_compilations
from driftline.core.case import Case, CheckOptions
from driftline.core.execution import Execution, Failure, Outcome, Stage
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.oracle.judge import Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.time_out import PATIENCE, needs_patience, patient, slow

TRAIT = TargetTraits(calls_user_code=True, positional=False)


def after(seconds: float, stage: Stage, unoptimised: float) -> Verdict:
    failure = Failure("no answer in time", "")
    execution = Execution("any", Outcome.TIMEOUT, stage, failure=failure, durations={"total": seconds})
    return judge(execution, Reference((ReferenceSample(seconds=unoptimised),)), TRAIT)


@pytest.mark.parametrize(
    ("stage", "unoptimised"), [(Stage.COMPILE, 0.001), (Stage.CONVERT, 0.001), (Stage.RUN, 3.0), (Stage.RUN, 0.0)]
)
def test_time_out_is_inconclusive(stage: Stage, unoptimised: float) -> None:
    verdict = after(300.0, stage, unoptimised)
    assert verdict.judgement is Judgement.INCONCLUSIVE
    assert verdict.reason.startswith("did not end within 300 s while ")


def test_run_that_ends_without_the_compiler_and_never_with_it_hangs() -> None:
    verdict = after(300.0, Stage.RUN, 0.01)
    assert (verdict.judgement, verdict.kind) == (Judgement.FAIL, Kind.TIMEOUT)
    assert verdict.reason == "hangs: no answer within 300 s while running; the unoptimised run takes 0.01 s"


def test_seeming_hang_after_a_short_limit_is_asked_again_with_more_time() -> None:
    execution = Execution("any", Outcome.TIMEOUT, Stage.RUN, durations={"total": 2.0})
    assert needs_patience(after(2.0, Stage.RUN, 0.001), execution)
    assert not needs_patience(after(2.0, Stage.RUN, 3.0), execution), "it is inconclusive already"
    assert patient(CheckOptions(timeout=2.0)).timeout == PATIENCE > 2.0
    done = replace(execution, outcome=Outcome.OK, durations={"total": 3.2})
    assert slow(done, 2.0).reason == "did not end within 2 s, and took 3.2 s when it was given more; raise --timeout"


def test_slow_compilation_is_a_note(tmp_path: Path) -> None:
    def outcome(seconds: float) -> CheckOutcome:
        done = Execution("any", Outcome.OK, Stage.RUN, durations={"compile": seconds})
        row = TargetResult(Target("any"), done, Verdict(Judgement.PASS, "agrees"))
        case = Case(Program("onnx", "onnx", "", tmp_path, "m"), (), (Target("any"),), CheckOptions())
        return CheckOutcome(case, Reference((ReferenceSample(seconds=0.01),)), (row,))

    assert slow_compilations(outcome(2.0)) == []
    (note,) = slow_compilations(outcome(95.0))
    assert note.startswith("any: compiling took 95 s, the unoptimised run takes 0.01 s")
