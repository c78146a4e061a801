"""ONNX models are repeated in a row or side by side, and mean what so many calls mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import checker as onnx_checker
from onnx import parser
from onnx.reference import ReferenceEvaluator

from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.perf.check import sample_case
from driftline.perf.growth import Grower, GrowthEffort, sizes_to
from driftline.perf.repeated import repeated_case
from driftline.programs.onnx.repeated import count_nodes, repeated_model

HEAD = '<ir_version: 8, opset_import: ["": 18]>'
ROW = f"{HEAD} row (float[3] x) => (float[3] y) <float[3] w = {{1, 2, 3}}> {{ a = Mul(x, w)  y = Add(a, w) }}"
GROWING = f"{HEAD} cat (float[N] x, float[2] a) => (float[M] y) {{ y = Concat <axis = 0> (x, a) }}"
BESIDE = f"{HEAD} sum (float[3] x) => (float y) {{ y = ReduceSum <keepdims = 0> (x) }}"
BRANCH = f"""{HEAD}
branch (bool c, float[3] x) => (float[3] y) {{
    a = Neg(x)
    y = If (c) <
        then_branch = t () => (float[3] p) {{ p = Add(a, x) }},
        else_branch = e () => (float[3] q) {{ q = Mul(a, a) }}
    >
}}"""
INTEGERS = f"{HEAD} first (int64[3] x) => (int64 y) {{ y = ReduceSum <keepdims = 0> (x) }}"
X = np.array([1, 2, 3], np.float32)


def evaluated(text: str, copies: int, **inputs: object) -> list[np.ndarray]:
    made = repeated_model(parser.parse_model(text), copies)
    onnx_checker.check_model(made, full_check=True)
    return ReferenceEvaluator(made).run(None, inputs)


def test_each_copy_takes_the_result_of_the_one_before() -> None:
    expected = X
    for _ in range(4):
        expected = expected * np.array([1, 2, 3], np.float32) + np.array([1, 2, 3], np.float32)
    (got,) = evaluated(ROW, 4, x=X)
    assert np.array_equal(got, expected)
    assert count_nodes(repeated_model(parser.parse_model(ROW), 4)) == 8


def test_no_name_of_a_copy_is_that_of_something_else() -> None:
    """Exporters number the names that they give."""
    text = f"{HEAD} row (float[3] x) => (float[3] a) <float[3] a_1 = {{1, 2, 3}}> {{ a_0 = Mul(x, a_1)  a = Neg(a_0) }}"
    (got,) = evaluated(text, 2, x=X)
    assert got.tolist() == [1, 8, 27]


def test_an_open_size_takes_what_grows() -> None:
    (got,) = evaluated(GROWING, 3, x=X, a=np.array([7, 8], np.float32))
    assert got.tolist() == [1, 2, 3, 7, 8, 7, 8, 7, 8]


def test_copies_stand_side_by_side_where_no_input_takes_the_result() -> None:
    assert [float(value) for value in evaluated(BESIDE, 3, x=X)] == [6, 9, 12]


def test_branches_read_the_values_of_their_own_copy() -> None:
    (got,) = evaluated(BRANCH, 2, c=np.array(False), x=X)
    assert got.tolist() == [1, 16, 81]


@pytest.mark.parametrize("name", ["y_0", "y_copy0", "y_copy_1"])
def test_names_of_the_model_stay_its_own(name: str) -> None:
    """Copies have values of other names than those of weights and of what is inside branches."""
    text = f"{HEAD} row (float[3] x) => (float[3] y) <float[3] {name} = {{1, 2, 3}}> {{ y = Add(x, {name}) }}"
    assert evaluated(text, 3, x=X)[0].tolist() == [4, 8, 12]
    inside = BRANCH.replace("(float[3] q) { q", f"(float[3] {name}) {{ {name}")
    assert evaluated(inside, 2, c=np.array(False), x=X)[0].tolist() == [1, 16, 81]


def test_what_cannot_be_repeated_says_so(checker: Checker, tmp_path: Path) -> None:
    onnx.save(parser.parse_model(INTEGERS), tmp_path / "model.onnx")
    options = CheckOptions()
    case = sample_case(open_program(str(tmp_path / "model.onnx"), checker.pool, options), options)
    with pytest.raises(DriftlineError, match="the copies would all be the same"):
        repeated_case(checker, case, 2)


def test_the_growth_of_an_onnx_model_is_measured(checker: Checker, tmp_path: Path) -> None:
    onnx.save(parser.parse_model(ROW), tmp_path / "model.onnx")
    options = CheckOptions()
    case = sample_case(open_program(str(tmp_path / "model.onnx"), checker.pool, options), options)
    row = Grower(checker, case, GrowthEffort(sizes_to(80), passes=1), 1.5, lambda words: None).measure(
        Target("onnxruntime")
    )
    assert not row.problem and row.nodes == (10, 20, 40, 80) and not row.found
