"""A step at the end of a run may fail without taking the summary with it."""

from __future__ import annotations

import errno

import pytest

from driftline.core.closing import FailedStep, closing_step, exit_code_after
from driftline.core.errors import BackendUnavailable


def test_failed_step_is_kept_with_its_error_and_goes_no_further() -> None:
    failed: list[FailedStep] = []
    with closing_step(failed, "matching the waiting suspects", "they stay unexamined"):
        {}["12"]
    (step,) = failed
    assert step.sentence == "matching the waiting suspects failed: KeyError: '12'; they stay unexamined"
    assert "test_closing.py" in step.details, "where it failed is kept"
    assert step.to_json().keys() == {"step", "error", "then", "details"}


def test_what_a_user_can_act_on_is_no_fault_of_ours() -> None:
    failed: list[FailedStep] = []
    with closing_step(failed, "writing report.html"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with closing_step(failed, "explaining abs"):
        raise BackendUnavailable("There is no torch.")
    assert "is full" in failed[0].error and not failed[0].details
    assert failed[1].sentence == "explaining abs failed: There is no torch"
    assert [step.exit_code for step in failed] == [2, 4]


def test_interruption_is_no_failed_step() -> None:
    failed: list[FailedStep] = []
    with pytest.raises(KeyboardInterrupt), closing_step(failed, "showing what was found"):
        raise KeyboardInterrupt
    assert not failed


def test_failed_step_of_ours_does_not_hide_what_a_run_found() -> None:
    failed = [FailedStep.of("a step", KeyError("x"))]
    assert [exit_code_after(failed, code) for code in (0, 1, 5)] == [0, 1, 5]
    assert exit_code_after([], 0) == 0


def test_failed_step_that_a_user_can_act_on_decides_the_exit_code_of_a_run_without_findings() -> None:
    failed = [FailedStep.of("a step", KeyError("x")), FailedStep.of("another", BackendUnavailable("no torch"))]
    assert [exit_code_after(failed, code) for code in (0, 1, 5)] == [4, 1, 4]
