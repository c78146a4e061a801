"""What is known of an execution whose worker is gone, and of targets that were never reached."""

from __future__ import annotations

import time
from importlib.metadata import version
from pathlib import Path

import pytest

from driftline.checking.checker import Checker, Skipped, TargetResult, _execution
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.execution import Outcome
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.execute.messages import Ending
from driftline.execute.pool import Pool, TaskReport
from driftline.oracle.judge import Reference


@pytest.mark.parametrize(
    ("target", "expected"), [("onnxruntime", version("onnxruntime")), ("onnxruntime@1.15.1", "1.15.1")]
)
def test_a_crash_has_a_version(target: str, expected: str) -> None:
    execution = _execution(Target.parse(target), TaskReport(Ending.DIED, detail="SIGFPE"), "", 0.0, room=0)
    assert (execution.outcome, execution.version) == (Outcome.CRASH, expected)


def test_an_error_ends_the_check(pool: Pool) -> None:
    """What another thread has begun meanwhile goes on to its end; nothing else is begun."""
    begun: list[str] = []

    def progress(target: Target, result: TargetResult | Skipped | None) -> None:
        begun.append(str(target))
        time.sleep(0.5 * (len(begun) > 1))
        raise DriftlineError("told to the user")

    targets = tuple(map(Target.parse, ("onnxruntime", "openvino", "tvm", "iree")))
    case = Case(Program("onnx", "onnx", "", Path("model.onnx"), "model"), (), targets, CheckOptions())
    with pytest.raises(DriftlineError, match="told"):
        Checker(pool, jobs=1).check(case, progress, Reference(()))
    assert len(begun) <= 2
