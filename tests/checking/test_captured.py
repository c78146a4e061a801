"""One torch.export for all targets that start from its graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftline.checking.checker import Checker
from driftline.checking.convert import Conversions
from driftline.checking.open import LoadedProgram, open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.target import parse_targets
from driftline.core.verdict import Judgement
from driftline.programs.captured import read_captured
from driftline.programs.opened import OpenedProgram

pytest.importorskip("torch")
pytest.importorskip("executorch")

PROGRAM = """
import torch

def nested():
    def forward(parts, *, shift):
        return {"scaled": parts["x"] * 2, "count": 3, "moved": [parts["x"] + shift, shift]}
    return forward, {"parts": {"x": torch.arange(6.0).reshape(2, 3)}, "shift": torch.tensor([0.5, 0.25, 0.125])}
"""


@pytest.fixture
def opened(tmp_path: Path, checker: Checker) -> LoadedProgram:
    path = tmp_path / "programs.py"
    path.write_text(PROGRAM)
    return open_program(f"{path}:nested", checker.pool, CheckOptions())


def case_for(opened: LoadedProgram, targets: str) -> Case:
    return Case(opened.program, (Inputs(opened.example, "example"),), tuple(parse_targets(targets)), CheckOptions())


def test_targets_share_one_file(checker: Checker, opened: LoadedProgram) -> None:
    case = case_for(opened, "eager,executorch,executorch:delegate=xnnpack")
    outcome = checker.check(case)
    assert {str(row.target): row.verdict.judgement for row in outcome.results} == {
        str(target): Judgement.PASS for target in case.targets
    }
    conversions = Conversions(checker.pool)
    eager, *capturing = [conversions.shared_capture(case, target) for target in case.targets]
    assert eager == ""
    assert len(set(capturing)) == 1
    live = OpenedProgram(opened.program, example=opened.example)
    captured = read_captured(Path(capturing[0]), live)
    assert captured is not None
    assert captured.inputs == ("parts.x", "shift")
    assert list(captured.outputs) == ["scaled", "count", "moved.0", "moved.1"]
    assert captured.outputs["count"] == 3
    at_another_size = {name: np.concatenate([array, array]) for name, array in opened.example.items()}
    assert read_captured(Path(capturing[0]), OpenedProgram(opened.program, example=at_another_size)) is None


def test_one_target_alone_captures_for_itself(checker: Checker, opened: LoadedProgram) -> None:
    case = case_for(opened, "eager,executorch")
    assert Conversions(checker.pool).shared_capture(case, case.targets[1]) == ""


def test_what_cannot_be_captured_is_each_target_s_own_answer(tmp_path: Path, checker: Checker) -> None:
    path = tmp_path / "programs.py"
    path.write_text(
        "import torch\ndef branches():\n    return (lambda x: x + 1 if x.sum() > 0 else x * 2), (torch.ones(3),)\n"
    )
    opened = open_program(f"{path}:branches", checker.pool, CheckOptions())
    outcome = checker.check(case_for(opened, "executorch,executorch:delegate=xnnpack"))
    assert [row.verdict.judgement for row in outcome.results] == [Judgement.REJECTED] * 2
