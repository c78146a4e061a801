"""Progress displays are listeners: what stays in sight is decided by the kind of event, never by its words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from driftline.core.target import Target
from driftline.core.verdict import Fingerprint, Status
from driftline.events import (
    BugSeen,
    CheckStarted,
    NotExplained,
    OutOfReach,
    StepDone,
    StepsPlanned,
    StepStarted,
    TargetStarted,
    Working,
)
from driftline.report.progress import Activity, CheckProgress, StepProgress
from driftline.store import Bug

BUG = Bug("tvm-1", Fingerprint("tvm", "RUN", "wrong-value", "abs(float)"), Status.NEW, "", "", "")


def test_bugs_are_kept_and_work_is_told_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with Activity("Auditing", 60.0) as listener:
        listener(Working("tvm", "listing its rules"))
        listener(Working("new rules", "that begin with a word of ours"))  # within ten seconds of the line before
        listener(OutOfReach("some-rule", "another dtype"))
        listener(BugSeen(BUG, new=False))
        listener(BugSeen(BUG, new=True))
        listener(BugSeen(BUG, new=True, how="some-rule, another dtype"))
        listener(NotExplained("tvm-2", "It does not fail."))
    assert capsys.readouterr().err.splitlines() == [
        "[0 s] tvm: listing its rules",
        "new  tvm-1  wrong-value: abs(float)",
        "new  tvm-1  some-rule, another dtype: wrong-value: abs(float)",
        "driftline: tvm-2: It does not fail.",
    ]


def test_a_slow_target_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    slow, quick = Target.parse("tvm"), Target.parse("eager")
    with CheckProgress("Checking x") as listener:
        listener(CheckStarted((slow, quick)))
        listener(TargetStarted(quick))
        listener(TargetStarted(slow, expected=90.0))
    assert capsys.readouterr().err.splitlines() == [
        "Checking x ...",
        "tvm usually takes about 90 s for a program of this size",
    ]


def test_long_steps_without_an_event_say_that_they_go_on(
    capfd: pytest.CaptureFixture[str], eventually: Callable[..., None]
) -> None:
    said: list[str] = []

    def beaten() -> bool:
        said.append(capfd.readouterr().err)
        return "s] net: compiling ..." in "".join(said)

    with Activity("capturing", 60).beat(0.05) as activity:
        activity(Working("net", "compiling"))
        eventually(beaten)


def test_steps_are_counted_and_told(capfd: pytest.CaptureFixture[str]) -> None:
    with StepProgress("Measuring") as progress:
        progress(StepsPlanned(2))
        progress(StepStarted("a"))
        progress(Working("a", "round 1"))
        progress(StepDone("a", "2x"))
        progress(StepDone("b", "no"))
    assert capfd.readouterr().err == "Measuring ...\na: round 1\n[1/2] a: 2x\n[2/2] b: no\n"
