"""A half-precision program is checked in float32 too, where small errors show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from driftline.campaign.check.session import check_program
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.checking.pairwise import pairwise
from driftline.checking.result import CheckResult
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.plugins import load_plugins
from driftline.core.target import Target, parse_targets
from driftline.core.verdict import Judgement, Kind
from driftline.store import Store

PLUGIN = str(Path(__file__).with_name("imprecise_compilers.py"))
OPTIONS = CheckOptions(plugins=(PLUGIN,))
TEXT = """
import torch

def program():
    torch.manual_seed({seed})
    layer = torch.nn.Linear(32, 16).bfloat16()
    return layer, (torch.randn(8, 32).bfloat16(),)
"""
LARGE = """
import torch

def program():
    torch.manual_seed(0)
    return torch.matmul, (100 + 100 * torch.rand(64, 64), torch.rand(64, 64))
"""
MODEL = """<ir_version: 10, opset_import: ["": 20]>
    g (float16[4,64] x) => (float16[4,4] y) { y = MatMul(x, w) }"""


@pytest.fixture(autouse=True)
def plugin() -> None:
    load_plugins([PLUGIN])


def checked(checker: Checker, folder: Path, program: str, targets: str, lifted: bool | None = None) -> CheckResult:
    with Store.create(folder / "store") as store:
        opened = open_program(program, checker.pool, OPTIONS)
        return check_program(
            checker, store, opened, targets=parse_targets(targets), inputs="random", options=OPTIONS, lifted=lifted
        )


def written(folder: Path, seed: int = 0) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "net.py").write_text(TEXT.format(seed=seed))
    return f"{folder / 'net.py'}:program"


def test_errors_that_bfloat16_hides_are_told_without_being_asked_for(checker: Checker, tmp_path: Path) -> None:
    result = checked(checker, tmp_path, written(tmp_path), "one-element-off,scale-off,eager")
    element, scale, eager = result.results
    for row in (element, scale, eager):
        assert row.verdict.judgement is Judgement.PASS, "the program that was asked about is right"
    told, *advice = result.notes[-3:]
    assert told.endswith("errors show that half precision hides: one-element-off, scale-off, eager.")
    for row, sentence in zip((element, scale), advice, strict=True):
        assert sentence.startswith(f"{row.target} is wrong in float32 alone, which is no failure of this program: ")
    assert not result.bugs
    distances = pairwise(result.outcome).pairs
    assert len(distances) == 6 and not any(pair.incomparable for pair in distances), "all in the program's own dtype"
    plain = checked(checker, tmp_path, written(tmp_path), "scale-off", lifted=False)
    assert [row.verdict.judgement for row in plain.results] == [Judgement.PASS]


def test_programs_of_one_file_name_are_not_mixed_up(checker: Checker, tmp_path: Path) -> None:
    """The lifted form imports the program by the name of its file, in a worker that imported another one before."""
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        result = checked(checker, folder, written(folder, seed), "eager")
        assert result.notes[-1].endswith("errors show that half precision hides: eager.")


def test_a_drift_is_confirmed_on_inputs_like_the_example(checker: Checker, tmp_path: Path) -> None:
    """On normal numbers this compiler is right: that is no reason to think that chance was at work."""
    (tmp_path / "large.py").write_text(LARGE)
    opened = open_program(f"{tmp_path / 'large.py'}:program", checker.pool, OPTIONS)
    sample = Inputs(opened.example, "example")
    case = Case(opened.program, (sample,), (Target("drifts-where-large"),), OPTIONS)
    (row,) = checker.check(case).results
    assert (row.verdict.judgement, row.verdict.kind) == (Judgement.FAIL, Kind.BIAS)


def test_onnx_models_are_lifted_too(checker: Checker, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(MODEL)
    weights = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float16)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(model, str(tmp_path / "half.onnx"))
    result = checked(checker, tmp_path, str(tmp_path / "half.onnx"), "scale-off")
    assert "scale-off is wrong in float32 alone" in result.notes[-1]
