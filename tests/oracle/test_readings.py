"""A clause that leaves a few results open does not allow another one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import parser
from test_onnx_edges import INF, LARGEST, NAN, _evaluated, finds, judged
from torch_programs import Program

ROW = [1.0, NAN, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]


@pytest.mark.parametrize(("got", "wrong"), [(NAN, False), (8.0, False), (7.0, True), (9.0, True), (INF, True)])
def test_maximum_beside_nan_is_nan_or_that_of_the_others(got: float, wrong: bool) -> None:
    model = "(float[1,8] x, int64[1] a) => (float[1,1] y) { y = ReduceMax(x, a) }"
    assert finds(model, {"x": [ROW], "a": [1]}, [[got]]) is wrong
    pool = "(float[1,1,8] x) => (float[1,1,1] y) { y = GlobalMaxPool(x) }"
    assert finds(pool, {"x": [[ROW]]}, [[[got]]]) is wrong


@pytest.mark.parametrize(("error", "wrong"), [(0.0, False), (4e-6, False), (1e-2, True)])
def test_what_follows_another_reading_is_rounded_as_well(error: float, wrong: bool) -> None:
    """A maximum that leaves the NaN out is legal, and so is the rounding of the normalisation behind it."""
    rows = np.linspace(-3, 3, 32).reshape(4, 8)
    rows[1, 2] = NAN
    model = """(float[4,8] x, int64[1] a, float[4] g, float[4] b) => (float[4] y) {
        m = ReduceMax<keepdims = 0>(x, a) y = LayerNormalization(m, g, b) }"""
    given = {"x": rows, "a": [1], "g": np.ones(4), "b": np.zeros(4)}
    most = np.nanmax(rows, axis=1).astype(np.float32).astype(np.float64)
    right = (most - most.mean()) / np.sqrt(most.var() + 1e-5)
    assert finds(model, given, right + np.array([error, 0, -error, 0])) is wrong


@pytest.mark.parametrize(("got", "wrong"), [(NAN, False), (-1.0, False), (2.0, False), (3.0, True), (-INF, True)])
def test_clipped_nan_is_nan_or_a_bound(got: float, wrong: bool) -> None:
    model = "(float[1] x, float l, float h) => (float[1] y) { y = Clip(x, l, h) }"
    assert finds(model, {"x": [NAN], "l": -1.0, "h": 2.0}, [got]) is wrong


@pytest.mark.parametrize(("got", "wrong"), [(INF, False), (LARGEST, False), (1.0, True), (NAN, True)])
def test_infinity_without_a_bound_stays_or_is_the_largest_number(got: float, wrong: bool) -> None:
    model = "(float[1] x, float l) => (float[1] y) { y = Clip(x, l) }"
    assert finds(model, {"x": [INF], "l": -1.0}, [got]) is wrong


@pytest.mark.parametrize(("got", "wrong"), [(NAN, False), (0.0, False), (-1.0, False), (5.0, True)])
def test_sign_of_nan_is_a_sign(got: float, wrong: bool) -> None:
    assert finds("(float[1] x) => (float[1] y) { y = Sign(x) }", {"x": [NAN]}, [got]) is wrong


@pytest.mark.parametrize(("got", "wrong"), [(10.0, False), (20.0, False), (0.0, True), (30.0, True)])
def test_one_of_the_updates_of_a_place_wins(got: float, wrong: bool) -> None:
    model = "(float[3] x, int64[3,1] i, float[3] u) => (float[3] y) { y = ScatterND(x, i, u) }"
    given = {"x": [0.0, 1.0, 2.0], "i": [[1], [1], [2]], "u": [10.0, 20.0, 30.0]}
    assert finds(model, given, [0.0, got, 30.0]) is wrong
    index = torch.tensor([1, 1, 2])
    program = Program(lambda x, u: x.index_put((index,), u), torch.arange(3.0), torch.tensor([10.0, 20.0, 30.0]))
    assert bool(program.judge({"output": np.array([0.0, got, 30.0], np.float32)}).finding) is wrong


@pytest.mark.parametrize("operator", ["Mul", "Add"])
def test_integers_of_onnx_that_overflow_are_open(operator: str) -> None:
    model = f"(int64[2] x) => (int64[2] y) {{ y = {operator}(x, x) }}"
    given = {"x": np.array([2**62 + 5, 3])}
    right = 9 if operator == "Mul" else 6
    assert not finds(model, given, [2**63 - 1, right])
    assert finds(model, given, [2**63 - 1, right + 1])


@pytest.mark.parametrize(
    "model",
    [
        """(float[1,1,1,16] x) => (float[1,1,1,32] y) {
            s = Constant<value = float[4] {1.0, 1.0, 1.0, 2.0}>() y = Resize<mode="linear">(x, , s) }""",
        "(float[1,1,16] x, float[1,1,3] w) => (float[1,1,16] y) { y = Conv<pads=[1,1]>(x, w) }",
        "(float[1,1,1,16] x) => (float[1,1,1,16] y) { y = Relu(x) }",
    ],
)
def test_infinity_at_one_end_says_nothing_of_the_other(model: str) -> None:
    shape = (1, 1, 16) if "Conv" in model else (1, 1, 1, 16)
    x = np.linspace(1, 2, 16).reshape(shape)
    x[..., 0] = NAN
    given = {"x": x, "w": np.ones((1, 1, 3))} if "Conv" in model else {"x": x}
    right = _evaluated(_parsed(model), {name: value.astype(np.float32) for name, value in given.items()})["y"]
    assert not finds(model, given, right)
    spoilt = right.copy()
    spoilt[..., 0] = 0.0
    assert not finds(model, given, spoilt)
    spoilt[..., -2] += 0.01
    assert finds(model, given, spoilt)


def _parsed(model: str) -> object:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> edge {model}')


def test_infinity_is_interpolated_in_its_neighbourhood_alone() -> None:
    x = torch.linspace(1, 2, 16).reshape(1, 1, 16)
    x[..., 0] = INF

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=2, mode="linear")

    program = Program(doubled, x)
    outputs = program.copy()
    outputs["output"][0, 0, 0] = NAN
    assert program.judge(outputs).finding is None
    outputs["output"][0, 0, -2] += 0.01
    assert program.judge(outputs).finding


CONVOLVED = "(float[1,1,8] x, float[1,1,4] w) => (float[1,1,5] y) {{ c = Conv(x, w) {then} }}"
BEHIND_A_SUM = {
    "y = Relu(c)": [NAN, 0.0, INF],
    "l = Constant<value_float=-1.0>() h = Constant<value_float=1.0>() y = Clip(c, l, h)": [NAN, -1.0, 1.0],
    "z = Constant<value_float=0.5>() y = Max(c, z)": [NAN, 0.5, INF],
}


@pytest.mark.parametrize("then", BEHIND_A_SUM)
def test_a_sum_that_overflows_on_the_way_may_be_nan_or_infinite_for_the_comparison_behind(then: str) -> None:
    given = {"x": [[[LARGEST, LARGEST, -LARGEST, -LARGEST, 1.0, 2.0, 3.0, 4.0]]], "w": [[[1.5, 1.5, 1.5, 1.5]]]}
    model = CONVOLVED.format(then=then)
    arrays = {name: np.array(value, np.float32) for name, value in given.items()}
    (right,) = _evaluated(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> g {model}'), arrays).values()
    for got in BEHIND_A_SUM[then]:
        assert not finds(model, given, [[[got, *right[0, 0, 1:]]]])
    assert finds(model, given, [[[*right[0, 0, :-1], right[0, 0, -1] - 0.5]]])  # no number there is large


def test_whether_an_overflowing_sum_is_nan_is_open() -> None:
    given = {"x": [[[LARGEST, LARGEST, -LARGEST, -LARGEST, 1.0, 2.0, 3.0, 4.0]]], "w": [[[1.5, 1.5, 1.5, 1.5]]]}
    model = CONVOLVED.replace("float[1,1,5] y", "bool[1,1,5] y").format(then="y = IsNaN(c)")
    assert not finds(model, given, [[[True, False, False, False, False]]])
    assert finds(model, given, [[[False, False, False, False, True]]])


ARC = """(float[1,3] x, float p) => (float[1,1] y)
{ a = Constant<value_ints=[1]>() q = Pow(x, p) s = Asin(q) y = ReduceMax(s, a) }"""


@pytest.mark.parametrize("first", [1.0, float(np.nextafter(np.float32(1), np.float32(2)))])
def test_a_power_at_the_end_of_a_domain_may_round_to_nan_or_to_a_number(first: float) -> None:
    """The other reading of a NaN, the maximum of the rest, is that of each of both."""
    given = {"x": [[first, 0.3, 0.2]], "p": 0.5}
    for got in (NAN, np.pi / 2, np.arcsin(0.3**0.5)):
        assert not finds(ARC, given, [[got]])
    far = {"x": [[1.5, 0.3, 0.2]], "p": 0.5}
    assert not finds(ARC, far, [[np.arcsin(0.3**0.5)]])
    assert finds(ARC, far, [[np.arcsin(0.2**0.5)]])


def test_evidence_says_what_the_reference_gave_where_another_reading_is_closer() -> None:
    model = "(float[1,8] x, int64[1] a) => (float[1,1] y) { y = ReduceMax(x, a) }"
    finding = judged(model, {"x": [ROW], "a": [1]}, [[7.0]]).finding
    assert finding is not None
    assert finding.evidence.worst[0].expected == 8.0
    assert np.isnan(finding.evidence.worst[0].unoptimised)
    assert "reference" not in finding.reason


def test_a_mean_of_nothing_is_open_and_a_sum_of_nothing_is_not() -> None:
    model = "(float[0,3] x, int64[1] a) => (float[3] y) {{ y = {}<keepdims=0>(x, a) }}"
    given = {"x": np.zeros((0, 3)), "a": [0]}
    assert not finds(model.format("ReduceMean"), given, [0.0, NAN, 5.0])
    assert finds(model.format("ReduceSum"), given, [0.0, NAN, 5.0])
