"""Questions about a failing case, asked of real compilers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.check.experiments import ask
from driftline.causes import Question
from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import InputClass
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.inputs.without import without

ABS = """
import torch

def program():
    return torch.abs, (torch.tensor([-(2**40), 5]),)
"""


def _case(pool: Pool, text: str, target: str) -> Case:
    options = CheckOptions()
    opened = open_source(SourceBundle("program.py", "program", {"program.py": text}), pool, options)
    return Case(opened.program, (Inputs(opened.example, "example"),), (Target.parse(target),), options)


def test_what_makes_a_failure_go_away(pool: Pool, checker: Checker) -> None:
    case = _case(pool, ABS, "openvino")
    target = case.targets[0]
    answers = {
        text: ask(checker, case, target, Question(*text.split()))
        for text in ("without large", "without negative", "without nan", "in int32", "with nosuch=option")
    }
    assert answers == {
        "without large": True,
        "without negative": False,
        "without nan": None,  # there is none in the inputs
        "in int32": True,
        "with nosuch=option": None,
    }


def test_an_option_of_the_target(pool: Pool, checker: Checker) -> None:
    """ONNX Runtime refuses Relu and Clip in float64 when it has fused them."""
    text = (Path(__file__).parents[2] / "examples" / "bugs" / "onnxruntime_relu_clip_float64.py").read_text()
    case = _case(pool, text, "onnxruntime")
    assert ask(checker, case, case.targets[0], Question("with", "opt=off")) is True
    assert ask(checker, case, case.targets[0], Question("with", "opt=all")) is False


@pytest.mark.parametrize("what", list(InputClass))
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int8"])
def test_no_number_of_the_class_is_left_and_others_stay(what: InputClass, dtype: str) -> None:
    floats = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-7, -3.0, 3.0, 3.0, 60000.0]
    array = np.array(floats, dtype) if dtype.startswith("float") else np.array([0, 1, -3, -128, 3, 3]).astype(dtype)
    changed = without({"x": array}, what)
    if changed is None:
        assert dtype.startswith("int") or (dtype, what) == ("float32", InputClass.SUBNORMAL)
        return
    wide = changed["x"].astype(np.float64)
    finite = wide[np.isfinite(wide)]
    gone = {
        InputClass.NAN: not np.isnan(wide).any(),
        InputClass.INFINITY: not np.isinf(wide).any(),
        InputClass.SUBNORMAL: not ((np.abs(wide) < 2.0**-14) & (wide != 0)).any(),
        InputClass.ZERO: not (wide == 0).any(),
        InputClass.NEGATIVE: not (finite < 0).any(),
        InputClass.LARGE: not (np.abs(finite) > 1e4).any(),
        InputClass.TIES: len(set(finite.tolist())) == finite.size,
    }
    assert gone[what]
    assert (changed["x"] == array).sum() >= 2


def test_an_onnx_model_in_another_dtype(pool: Pool, checker: Checker) -> None:
    """OpenVINO clamps float64 to the range of float32; in float32 it knows infinities."""
    text = """
import numpy as np
from onnx import parser

MODEL = '<ir_version: 8, opset_import: ["": 18]> g (double[2] x) => (double[2] y) <double w = {1.0}> { y = Add(x, w) }'


def program():
    return parser.parse_model(MODEL), {"x": np.array([np.inf, 1.0])}
"""
    case = _case(pool, text, "openvino")
    assert not checker.check(case).results[0].verdict.agrees
    assert ask(checker, case, case.targets[0], Question("in", "float32")) is True
    assert ask(checker, case, case.targets[0], Question("in", "int32")) is None
