"""What is known of an execution whose worker is gone."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from driftline.checking.checker import _execution
from driftline.core.execution import Outcome
from driftline.core.target import Target
from driftline.execute.pool import Report


@pytest.mark.parametrize(
    ("target", "expected"), [("onnxruntime", version("onnxruntime")), ("onnxruntime@1.15.1", "1.15.1")]
)
def test_a_crash_has_a_version(target: str, expected: str) -> None:
    execution = _execution(Target.parse(target), Report("died", {}, detail="SIGFPE"), "", 0.0)
    assert (execution.outcome, execution.version) == (Outcome.CRASH, expected)
