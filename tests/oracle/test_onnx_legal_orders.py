"""Orders of summation that ONNX runtimes may choose, where the addend of Gemm and Conv makes them err alike; so does
an addition that follows MatMul or Conv, which runtimes fuse with it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import parser

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import IEEE, Arithmetic, declared
from driftline.oracle.rule import JudgedOutputs, ShadowAnswer, judge_outputs
from driftline.oracle.shadow.onnx.shadow import OnnxShadow
from driftline.oracle.shadow.task import ask_shadow

GEMM = """<ir_version: 8, opset_import: ["": 18]>
g ({type}[64,{terms}] x, {type}[3,{terms}] w, {type}[3] b) => ({type}[64,3] y) {{ y = Gemm<transB=1>(x, w, b) }}"""
CONV = """<ir_version: 8, opset_import: ["": 18]>
g ({type}[64,{terms},1] x, {type}[3,{terms},1] w, {type}[3] b) => ({type}[64,3,1] y) {{ y = Conv(x, w, b) }}"""
MATMUL_ADD = """<ir_version: 8, opset_import: ["": 18]>
g ({type}[64,{terms}] x, {type}[3,{terms}] w, {type}[3] b) => ({type}[64,3] y) {{
    t = Transpose<perm=[1,0]>(w) p = MatMul(x, t) y = Add(b, p)
}}"""
CONV_ADD = """<ir_version: 8, opset_import: ["": 18]>
g ({type}[64,{terms},1] x, {type}[3,{terms},1] w, {type}[3] b) => ({type}[64,3,1] y) {{
    p = Conv(x, w) s = Constant<value_ints=[64,3]>() q = Reshape(p, s) a = Add(q, b) one = Constant<value_ints=[2]>()
    y = Unsqueeze(a, one)
}}"""
CASES = pytest.mark.parametrize(
    "text", [GEMM, CONV, MATMUL_ADD, CONV_ADD], ids=["Gemm", "Conv", "MatMul-Add", "Conv-Add"]
)
SIZES = pytest.mark.parametrize(
    ("dtype", "terms", "policy"), [("float32", 64, ""), ("float16", 18, "half-accumulation")]
)


class NearlyEqual:
    """Nearly equal products and a large addend, and the result where the sum begins with the addend."""

    def __init__(self, text: str, dtype: str, terms: int, policy: str, bias: float = 1000.0) -> None:
        random = np.random.default_rng(0)
        near = 16 * np.finfo(dtype).eps
        x = (2.65 + near * random.random((64, terms))).astype(dtype)
        weight = (0.258 + near / 10 * random.random((3, terms))).astype(dtype)
        self.bias: Array = np.array([bias, 0.999 * bias, 1.001 * bias], dtype=dtype)
        total = np.broadcast_to(self.bias, (64, 3))
        for k in range(terms):
            total = (total + (x[:, k : k + 1] * weight[None, :, k]).astype(dtype)).astype(dtype)
        self.total = total
        model = parser.parse_model(text.format(type="float" if dtype == "float32" else "float16", terms=terms))
        trailing = (1,) if text in (CONV, CONV_ADD) else ()
        self._shape = (64, 3, *trailing)
        arrays = {"x": x.reshape(*x.shape, *trailing), "w": weight.reshape(*weight.shape, *trailing), "b": self.bias}
        self._arithmetic = declared(policy)
        self._shadow = OnnxShadow(model, arrays, self._arithmetic)

    def judge(self, got: Array) -> JudgedOutputs:
        return judged_by(self._shadow, got.reshape(self._shape), self._arithmetic)


def judged_by(shadow: OnnxShadow, got: Array, arithmetic: Arithmetic = IEEE) -> JudgedOutputs:
    """The judgement on the output `y` of the model of a shadow."""
    exact = shadow.reference()

    def ask(runs: int, outputs: dict[str, Array] | None) -> ShadowAnswer:
        return ask_shadow(shadow, runs, outputs)

    return judge_outputs({"y": got}, {"y": exact["y"].astype(got.dtype)}, exact, ask, arithmetic)


@CASES
@SIZES
def test_equal_products_may_all_round_alike_when_the_sum_begins_with_the_addend(
    text: str, dtype: str, terms: int, policy: str
) -> None:
    program = NearlyEqual(text, dtype, terms, policy)
    assert program.judge(program.total).finding is None


@CASES
@pytest.mark.parametrize("bias", [7.0, 35.0, 140.0, 315.0])
def test_so_may_products_that_come_to_more_than_the_addend(text: str, bias: float) -> None:
    program = NearlyEqual(text, "float32", 512, "", bias)
    assert program.judge(program.total).finding is None
    assert program.judge((program.total * np.float32(1.001)).astype(np.float32)).finding


@CASES
@SIZES
def test_equal_products_do_not_excuse_lost_ones(text: str, dtype: str, terms: int, policy: str) -> None:
    program = NearlyEqual(text, dtype, terms, policy)
    assert program.judge(np.broadcast_to(program.bias, (64, 3))).finding


@CASES
def test_sums_in_half_precision_are_found_although_their_terms_are_equal(text: str) -> None:
    program = NearlyEqual(text, "float16", 18, "")
    assert program.judge(program.total).finding


FEW_VALUES: dict[str, str] = {
    "ReduceSum": "(float[4,16,381] x) => (float[4,16,1] y) { a = Constant<value_ints=[-1]>() y = ReduceSum(x, a) }",
    "ReduceMean": "(float[4,16,381] x) => (float[4,16,1] y) { a = Constant<value_ints=[-1]>() y = ReduceMean(x, a) }",
    "GlobalAveragePool": "(float[4,16,381] x) => (float[4,16,1] y) { y = GlobalAveragePool(x) }",
    "AveragePool": "(float[4,16,381] x) => (float[4,16,1] y) { y = AveragePool<kernel_shape=[381]>(x) }",
    "AveragePool of sizes rounded up": "(float[4,16,381] x) => (float[4,16,1] y)"
    " { y = AveragePool<kernel_shape=[381], ceil_mode=1>(x) }",
    "MatMul": "(float[4,16,381] x) => (float[4,16,16] y) { t = Transpose<perm=[0,2,1]>(x) y = MatMul(x, t) }",
}


@pytest.mark.parametrize("name", FEW_VALUES)
def test_terms_of_few_values_may_be_added_up_in_their_order(name: str) -> None:
    x = np.log1p(np.exp(np.random.default_rng(0).integers(-2, 3, (4, 16, 381)))).astype(np.float32)
    terms = x[:, :, None] * x[:, None] if name == "MatMul" else x[:, :, None]
    y = np.add.accumulate(terms, axis=-1)[..., -1] / np.float32(1 if name in ("MatMul", "ReduceSum") else 381)
    shadow = OnnxShadow(parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {FEW_VALUES[name]}'), {"x": x})
    assert judged_by(shadow, y).finding is None
    assert judged_by(shadow, y * np.float32(1.0002)).finding


AFFINE = """<ir_version: 8, opset_import: ["": 18]> g (float[64,3] x) => (float[64,3] y)
<float[3] mean = {0.485, 0.456, 0.406}, float[3] std = {0.229, 0.224, 0.225}, float[3] beta = {0.1, -0.2, 0.3}>
{ c = Sub(x, mean) s = Div(c, std) y = Add(s, beta) }"""


def test_a_chain_of_constants_may_be_folded_into_one_multiplication_and_one_addition() -> None:
    mean, std, beta = (
        np.array(numbers, np.float32) for numbers in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225], [0.1, -0.2, 0.3])
    )
    near = np.random.default_rng(0).uniform(-1e-3, 1e-3, (64, 3))  # the mean: what is left of it is small
    x = (mean - beta * std + near).astype(np.float32)
    y = x * (np.float32(1.0) / std) + (beta - mean / std)
    shadow = OnnxShadow(parser.parse_model(AFFINE), {"x": x})
    assert judged_by(shadow, y).finding is None
    assert judged_by(shadow, y + np.float32(1e-5)).finding


def test_no_chain_of_inputs_is_folded() -> None:
    text = AFFINE.replace("float[64,3] x", "float[64,3] x, float[3] mean").replace(
        "float[3] mean = {0.485, 0.456, 0.406}, ", ""
    )
    mean, std, beta = (
        np.array(numbers, np.float32) for numbers in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225], [0.1, -0.2, 0.3])
    )
    near = np.random.default_rng(0).uniform(-1e-3, 1e-3, (64, 3))
    x = (mean - beta * std + near).astype(np.float32)
    y = x * (np.float32(1.0) / std) + (beta - mean / std)
    shadow = OnnxShadow(parser.parse_model(text), {"x": x, "mean": mean})
    assert judged_by(shadow, y).finding


@pytest.mark.parametrize(("error", "wrong"), [(3e-6, False), (1e-3, True)])
def test_rounding_of_a_fourier_transform_follows_the_size_of_its_own_row(error: float, wrong: bool) -> None:
    text = """<ir_version: 9, opset_import: ["": 20]>
    g (float[20,16,1] x) => (float[20,16,2] y) { axis = Constant<value_int=1>() y = DFT(x, , axis) }"""
    model = parser.parse_model(text)
    rows = np.ones((20, 16, 1), dtype=np.float32)
    rows[7] *= 1e17  # one row is much larger than the others
    shadow = OnnxShadow(model, {"x": rows})
    right = np.fft.fft(rows[..., 0].astype(np.float64), axis=1)
    got = np.stack([right.real, right.imag], axis=-1).astype(np.float32)
    got[7, 3, 0] += np.float32(error * 4e17)
    assert bool(judged_by(shadow, got).finding) is wrong
