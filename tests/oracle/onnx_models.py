"""Small ONNX models for the tests of the shadow, in ONNX's own text form; `T` is the float type under test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

ONNX_NAMES = {"float32": "float", "float16": "float16", "bfloat16": "bfloat16", "float64": "double"}
ELEMENTS = {"float32": 1, "float16": 10, "float64": 11, "bfloat16": 16}


@dataclass(frozen=True)
class Model:
    """`signature` names the inputs with their types, `outputs` the results, `body` the nodes."""

    name: str
    signature: str
    outputs: str
    body: str
    opset: int = 18
    scale: float = 1.0
    offset: float = 0.0
    dtypes: tuple[str, ...] = ("float32", "float16")

    def build(self, dtype: str) -> Any:
        import onnx.parser

        kind = ONNX_NAMES[dtype]

        def typed(text: str) -> str:
            # the text form has no float16 literals
            cast = rf"\1_f = Constant<value = float \2>() \1 = Cast<to={ELEMENTS[dtype]}>(\1_f)"
            text = re.sub(r"(\w+) = Constant<value = Tscalar ({.*?})>\(\)", cast, text)
            return text.replace("T[", f"{kind}[")

        text = (
            f'<ir_version: 8, opset_import: ["" : {self.opset}]> g ({typed(self.signature)}) => ({typed(self.outputs)})'
            f" {{ {typed(self.body)} }}"
        )
        return onnx.parser.parse_model(text)

    def inputs(self, model: Any, seed: int) -> dict[str, np.ndarray[Any, Any]]:
        import onnx

        random = np.random.default_rng(seed)
        arrays = {}
        for value in model.graph.input:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            drawn = random.standard_normal(shape) * self.scale + self.offset
            if value.name.startswith("w"):  # weights, sized so that sums stay of order one
                fan = max(int(np.prod(shape[1:])) if len(shape) > 2 else shape[0], 1)
                drawn = random.standard_normal(shape) / np.sqrt(fan)
            if value.name.startswith("positive"):
                drawn = np.abs(random.standard_normal(shape)) + 0.5
            arrays[value.name] = drawn.astype(dtype)
        return arrays


MODELS = [
    Model("matmul", "T[8,64] x, T[64,32] w", "T[8,32] y", "y = MatMul(x, w)"),
    Model(
        "mlp", "T[8,48] x, T[48,64] w1, T[64] b1, T[64,64] w2, T[64] b2, T[64,10] w3", "T[8,10] y",
        "h1 = Gemm(x, w1, b1) r1 = Relu(h1) h2 = Gemm(r1, w2, b2) r2 = Tanh(h2) y = MatMul(r2, w3)",
    ),
    Model("gemm scaled", "T[6,40] x, T[16,40] w, T[16] b", "T[6,16] y",
          "y = Gemm<alpha=0.5, beta=2.0, transB=1>(x, w, b)"),
    Model(
        "conv bn relu", "T[2,3,12,12] x, T[8,3,3,3] w, T[8] b, T[8] s, T[8] o, T[8] m, T[8] positive_v",
        "T[2,8,12,12] y",
        "c = Conv<pads=[1,1,1,1]>(x, w, b) n = BatchNormalization(c, s, o, m, positive_v) y = Relu(n)",
    ),
    Model("conv strided grouped", "T[2,4,11,11] x, T[8,2,3,3] w", "T[2,8,5,5] y",
          "y = Conv<group=2, strides=[2,2]>(x, w)"),
    Model("conv 1d dilated", "T[2,4,20] x, T[6,4,3] w", "T[2,6,16] y", "y = Conv<dilations=[2]>(x, w)"),
    Model("conv transpose", "T[1,4,6,6] x, T[4,3,3,3] w", "T[1,3,13,13] y", "y = ConvTranspose<strides=[2,2]>(x, w)"),
    Model("conv transpose grouped", "T[2,4,5,5] x, T[4,3,3,3] w, T[6] b", "T[2,6,11,11] y",
          "y = ConvTranspose<group=2, strides=[2,2]>(x, w, b)"),
    Model("softmax", "T[6,50] x", "T[6,50] y", "y = Softmax<axis=-1>(x)", scale=3.0),
    Model("softmax over axis 1", "T[3,20,4] x", "T[3,20,4] y", "y = Softmax<axis=1>(x)"),
    Model("softmax of opset 11", "T[3,5,4] x", "T[3,5,4] y", "y = Softmax<axis=1>(x)", opset=11),
    Model("log softmax", "T[6,50] x", "T[6,50] y", "y = LogSoftmax<axis=-1>(x)"),
    Model("layer norm", "T[6,64] x, T[64] s, T[64] b", "T[6,64] y", "y = LayerNormalization<axis=-1>(x, s, b)"),
    Model("layer norm far from zero", "T[6,64] x, T[64] s, T[64] b", "T[6,64] y",
          "y = LayerNormalization<axis=-1>(x, s, b)", offset=5.0),
    Model("instance norm", "T[2,4,8,8] x, T[4] s, T[4] b", "T[2,4,8,8] y", "y = InstanceNormalization(x, s, b)"),
    Model("group norm", "T[2,8,6] x, T[8] s, T[8] b", "T[2,8,6] y",
          "y = GroupNormalization<num_groups=4>(x, s, b)", opset=21),
    Model("rms norm", "T[6,64] x, T[64] s", "T[6,64] y",
          "two = Constant<value = Tscalar {2.0}>() q = Pow(x, two) m = ReduceMean<axes=[-1]>(q)"
          " e = Constant<value = Tscalar {0.0001}>() v = Add(m, e) r = Sqrt(v) n = Div(x, r) y = Mul(n, s)", opset=17),
    Model("mean variance norm", "T[2,3,5,5] x", "T[2,3,5,5] y", "y = MeanVarianceNormalization(x)",
          dtypes=("float32",)),
    Model("lp norm", "T[5,30] x", "T[5,30] y, T[5,30] z", "y = LpNormalization<p=2>(x) z = LpNormalization<p=1>(x)"),
    Model("lrn", "T[2,8,5,5] x", "T[2,8,5,5] y", "y = LRN<size=3>(x)"),
    Model("reductions", "T[4,5,30] x", "T[4] a, T[5,30] b, T[4,5,1] c, T[4] d",
          "a = ReduceSum<axes=[1,2], keepdims=0>(x) b = ReduceMean<axes=[0], keepdims=0>(x)"
          " c = ReduceL2<axes=[2]>(x) d = ReduceLogSumExp<axes=[1,2], keepdims=0>(x)", opset=12),
    Model("more reductions", "T[4,30] x", "T[4,1] a, T[4,1] b, T[4,1] c, T[4,1] d",
          "k = Constant<value = int64[1] {1}>() a = ReduceL1(x, k) b = ReduceSumSquare(x, k) c = ReduceProd(x, k)"
          " d = ReduceLogSumExp(x, k)"),
    Model("cumsum", "T[4,60] x", "T[4,60] y", "k = Constant<value = int64 {1}>() y = CumSum(x, k)"),
    Model("cumsum reversed", "T[40,3] x", "T[40,3] y",
          "k = Constant<value = int64 {0}>() y = CumSum<reverse=1, exclusive=1>(x, k)"),
    Model("topk of matmul", "T[6,40] x, T[40,50] w", "T[6,5] v, int64[6,5] i",
          "m = MatMul(x, w) k = Constant<value = int64[1] {5}>() v, i = TopK(m, k)"),
    Model("argmax and gather", "T[6,40] x, T[40,20] w, T[20,7] table", "int64[6] i, T[6,7] y",
          "m = MatMul(x, w) i = ArgMax<axis=1, keepdims=0>(m) y = Gather(table, i)"),
    Model("floor and round", "T[8,32] x, T[32,16] w", "T[8,16] f, T[8,16] r, int64[8,16] c, T[8,16] s",
          "m = MatMul(x, w) ten = Constant<value = Tscalar {10.0}>() b = Mul(m, ten) f = Floor(b) r = Round(b)"
          " c = Cast<to=7>(b) s = Sign(b)"),
    Model("comparisons and where", "T[8,32] x, T[32,16] w, T[8,16] z", "bool[8,16] l, T[8,16] y",
          "m = MatMul(x, w) l = Less(m, z) y = Where(l, m, z)"),
    Model("attention by hand", "T[2,10,16] q, T[2,10,16] k, T[2,10,16] v", "T[2,10,16] y",
          "kt = Transpose<perm=[0,2,1]>(k) s = MatMul(q, kt) f = Constant<value = Tscalar {0.25}>() t = Mul(s, f)"
          " p = Softmax<axis=-1>(t) y = MatMul(p, v)"),
    Model("lstm", "T[7,3,8] x, T[1,24,8] w, T[1,24,6] wr, T[1,48] b", "T[7,1,3,6] y, T[1,3,6] h, T[1,3,6] c",
          "y, h, c = LSTM<hidden_size=6>(x, w, wr, b)"),
    Model("lstm both ways", "T[7,3,8] x, T[2,24,8] w, T[2,24,6] wr", "T[7,2,3,6] y, T[2,3,6] h",
          'y, h = LSTM<hidden_size=6, direction="bidirectional">(x, w, wr)'),
    Model("gru", "T[9,3,8] x, T[1,18,8] w, T[1,18,6] wr, T[1,36] b", "T[9,1,3,6] y, T[1,3,6] h",
          "y, h = GRU<hidden_size=6>(x, w, wr, b)"),
    Model("gru linear before reset", "T[9,3,8] x, T[1,18,8] w, T[1,18,6] wr, T[1,36] b", "T[9,1,3,6] y",
          "y = GRU<hidden_size=6, linear_before_reset=1>(x, w, wr, b)"),
    Model("rnn", "T[9,3,8] x, T[1,6,8] w, T[1,6,6] wr, T[1,12] b", "T[9,1,3,6] y, T[1,3,6] h",
          "y, h = RNN<hidden_size=6>(x, w, wr, b)"),
    Model("resize linear", "T[1,2,7,9] x", "T[1,2,14,18] y",
          'k = Constant<value = float[4] {1.0,1.0,2.0,2.0}>() y = Resize<mode="linear">(x, , k)'),
    Model("resize nearest", "T[1,2,6,6] x", "T[1,2,12,12] y",
          'k = Constant<value = float[4] {1.0,1.0,2.0,2.0}>()'
          ' y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , k)'),
    Model("clip and leaky", "T[8,32] x, T[32,16] w", "T[8,16] y",
          "m = MatMul(x, w) lo = Constant<value = Tscalar {-0.5}>() hi = Constant<value = Tscalar {0.75}>()"
          " c = Clip(m, lo, hi) y = LeakyRelu<alpha=0.1>(c)"),
    Model("ill-conditioned", "T[6,20] a, T[6,20] b, T[20,8] w", "T[6,8] y",
          "p = MatMul(a, w) big = Constant<value = Tscalar {40.0}>() s = Add(p, big) t = Sub(s, big)"
          " q = MatMul(b, w) e = Exp(q) y = Div(t, e)"),
    Model("functions", "T[8,30] x, T[8,30] positive_p", "T[8,30] y",
          "a = Exp(x) b = Sigmoid(x) c = Erf(x) d = Log(positive_p) e = Sqrt(positive_p) f = Softplus(x) g = Sin(x)"
          " h = Sum(a, b, c, d, e, f, g) i = Elu(x) j = Pow(positive_p, x) k = Mul(h, i) y = Add(k, j)"),
    Model("gelu by hand", "T[8,30] x", "T[8,30] y",
          "r = Constant<value = Tscalar {1.4142135}>() d = Div(x, r) e = Erf(d) one = Constant<value = Tscalar {1.0}>()"
          " s = Add(e, one) m = Mul(x, s) half = Constant<value = Tscalar {0.5}>() y = Mul(m, half)"),
    Model("gelu", "T[8,30] x", "T[8,30] y", "y = Gelu(x)", opset=20),
    Model("hard activations", "T[8,30] x", "T[8,30] y, T[8,30] z, T[8,30] u",
          "y = HardSwish(x) z = HardSigmoid(x) u = Mish(x)", scale=3.0),
    Model("pooling", "T[1,3,10,10] x", "T[1,3,5,5] a, T[1,3,8,8] b, T[1,3,1,1] c",
          "a = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) b = AveragePool<kernel_shape=[3,3]>(x)"
          " c = GlobalAveragePool(x)"),
    Model("einsum", "T[3,4,10] x, T[3,10,6] w", "T[3,4,6] y", 'y = Einsum<equation="bij,bjk->bik">(x, w)'),
    Model("scatter add", "T[5,6] x, T[5,6] u", "T[5,6] y",
          "i = Constant<value = int64[5,6] {0,0,0,0,0,0,1,1,1,1,1,1,0,0,0,0,0,0,3,3,3,3,3,3,0,0,0,0,0,0}>()"
          ' y = ScatterElements<axis=0, reduction="add">(x, i, u)'),
    Model("quantise", "T[8,16] x, T[16,8] w", "T[8,8] y",
          "m = MatMul(x, w) s = Constant<value = Tscalar {0.02}>() z = Constant<value = int8 {0}>()"
          " q = QuantizeLinear(m, s, z) y = DequantizeLinear(q, s, z)", opset=19),
    Model("moving", "T[4,6,8] x", "T[8,24] y, T[4,6,4] z",
          "t = Transpose<perm=[2,0,1]>(x) k = Constant<value = int64[2] {8,24}>() r = Reshape(t, k)"
          " y = Neg(r) n = Constant<value = int64[2] {4,4}>() a, z = Split<axis=2>(x, n)"),
    Model("loop", "T[4,16] x, T[16,16] w", "T[4,16] y",
          "n = Constant<value = int64 {5}>() c = Constant<value = bool {1}>()"
          " y = Loop(n, c, x) <body = b (int64 i, bool ci, T[4,16] h) => (bool co, T[4,16] ho)"
          " { co = Identity(ci) m = MatMul(h, w) ho = Tanh(m) }>"),
    Model("if", "T[4,16] x, T[16,16] w", "T[4,16] y",
          "s = ReduceSum<keepdims=0>(x) q = Mul(s, s) o = Constant<value = Tscalar {-1.0}>() c = Greater(q, o)"
          " y = If(c) <then_branch = t () => (T[4,16] a) { a = MatMul(x, w) },"
          " else_branch = e () => (T[4,16] b) { b = Relu(x) }>"),
]  # fmt: skip
BY_NAME = {model.name: model for model in MODELS}
