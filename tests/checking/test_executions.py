"""What is known of an execution whose worker is gone, and of targets that were never reached."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from driftline.checking.checker import Checker, Skipped, TargetResult, _execution
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.execution import Outcome
from driftline.core.program import Program, SourceBundle
from driftline.core.target import Target
from driftline.core.verdict import Judgement
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


def test_a_program_that_changed_says_nothing_about_the_compiler_at_any_stage(pool: Pool) -> None:
    """Converted for ONNX Runtime, run by eager: neither is to blame for a factory that returns another model."""
    text = "import torch\n\n\ndef program():\n    return torch.nn.Linear(2, 2), (torch.ones(1, 2),)\n"
    options = CheckOptions()
    opened = open_source(SourceBundle("model.py", "program", {"model.py": text}), pool, options, name="changing")
    program = replace(opened.program, state="of another model")
    targets = tuple(map(Target.parse, ("onnxruntime", "eager")))
    case = Case(program, (Inputs(opened.example, "example"),), targets, options)
    checker = Checker(pool)
    for target in targets:
        execution = checker.execute(case, target)
        assert "does not return the same model each time" in execution.problem, target
        verdict = checker.judge(case, target, execution, Reference(()))
        assert verdict.judgement is Judgement.INCONCLUSIVE, target
