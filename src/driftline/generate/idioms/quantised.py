"""Idioms of quantised models: integers between QuantizeLinear and DequantizeLinear, and products of integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from driftline.generate.idioms.sketch import Sketch, idiom

_RANGES = {"uint8": (0, 255), "int8": (-128, 127)}


def zero_point(s: Sketch, dtype: str) -> str:
    s.opset = max(s.opset, 19)  # the reference evaluator knows DequantizeLinear from there on
    return s.const(s.rng.choice([0, 1, 3]) + (128 if dtype == "uint8" else 0), dtype)


def quantised(s: Sketch, x: str, dtype: str, scale: float = 0.03125) -> str:
    return str(s.node("QuantizeLinear", x, s.const(scale), zero_point(s, dtype)))


def dequantised(s: Sketch, x: str, dtype: str, scale: float = 0.03125) -> str:
    return str(s.node("DequantizeLinear", x, s.const(scale), zero_point(s, dtype)))


def through(s: Sketch, x: str, dtype: str, scale: float = 0.03125) -> str:
    """Quantise a value and dequantise it again."""
    number, point = s.const(scale), zero_point(s, dtype)
    return str(s.node("DequantizeLinear", s.node("QuantizeLinear", x, number, point), number, point))


def fixed_weights(s: Sketch, *shape: int, dtype: str = "int8") -> str:
    """Add weights that are stored as integers and dequantised."""
    low, high = _RANGES[dtype]
    point = s.const(0 if dtype == "int8" else 128, dtype)
    return str(s.node("DequantizeLinear", s.integers(*shape, dtype=dtype, low=low, high=high), s.const(0.015625),
                      point))  # fmt: skip


def either_type(s: Sketch) -> str:
    return s.rng.choice(["uint8", "int8"])


def around(s: Sketch, middle: Callable[[str], str], *shape: int) -> str:
    """Dequantise, compute and quantise again, which runtimes replace by one integer kernel."""
    dtype = either_type(s)
    return through(s, middle(through(s, s.input(*shape), dtype)), dtype, 0.0625)


@idiom
def qdq_conv(s: Sketch) -> str:
    return around(s, lambda x: s.node("Conv", x, fixed_weights(s, 4, 2, 3, 3), pads=[1, 1, 1, 1]), 1, 2, 5, 5)


@idiom
def qdq_conv_bias(s: Sketch) -> str:
    dtype = either_type(s)
    x = through(s, s.input(1, 2, 5, 5), dtype)
    whole = s.integers(4, dtype="int32", low=-500, high=500)
    bias = s.node("DequantizeLinear", whole, s.const(0.03125 * 0.015625), s.const(0, "int32"))
    made = s.node("Conv", x, fixed_weights(s, 4, 2, 3, 3), bias, pads=[1, 1, 1, 1])
    return through(s, s.node("Relu", made), dtype, 0.0625)


@idiom
def qdq_conv_float_weights(s: Sketch) -> str:
    return around(s, lambda x: s.node("Conv", x, s.weights(4, 2, 3, 3), s.weights(4)), 1, 2, 5, 5)


@idiom
def qdq_matmul(s: Sketch) -> str:
    return around(s, lambda x: s.node("MatMul", x, fixed_weights(s, 4, 5)), 3, 4)


@idiom
def qdq_matmul_float_out(s: Sketch) -> str:
    return str(s.node("MatMul", through(s, s.input(3, 4), either_type(s)), fixed_weights(s, 4, 5)))


@idiom
def qdq_gemm(s: Sketch) -> str:
    def middle(x: str) -> str:
        whole = s.integers(5, dtype="int32", low=-500, high=500)
        bias = s.node("DequantizeLinear", whole, s.const(0.03125 * 0.015625), s.const(0, "int32"))
        return str(s.node("Gemm", x, fixed_weights(s, 4, 5), bias))

    return around(s, middle, 3, 4)


def _unary(kind: str, shape: Sequence[int], **attributes: Any) -> None:
    def drawn(s: Sketch) -> str:
        return around(s, lambda x: s.node(kind, x, **attributes), *shape)

    drawn.__name__ = f"qdq_{kind.lower()}"
    idiom(drawn)


for _kind, _shape, _attributes in (
    ("Relu", (2, 3), {}),
    ("LeakyRelu", (2, 3), {"alpha": 0.125}),
    ("Sigmoid", (2, 3), {}),
    ("Softmax", (2, 3), {"axis": -1}),
    ("MaxPool", (1, 2, 4, 4), {"kernel_shape": [2, 2]}),
    ("AveragePool", (1, 2, 4, 4), {"kernel_shape": [2, 2]}),
    ("GlobalAveragePool", (1, 2, 4, 4), {}),
    ("Transpose", (2, 3), {"perm": [1, 0]}),
):
    _unary(_kind, _shape, **_attributes)


@idiom
def qdq_argmax(s: Sketch) -> str:
    return str(s.node("ArgMax", through(s, s.input(2, 3), either_type(s)), axis=1))


@idiom
def qdq_add(s: Sketch) -> str:
    dtype = either_type(s)
    left, right = through(s, s.input(2, 3), dtype), through(s, s.input(2, 3), dtype)
    return through(s, s.node(s.rng.choice(["Add", "Mul"]), left, right), dtype, 0.125)


@idiom
def qdq_concat(s: Sketch) -> str:
    dtype = either_type(s)
    left, right = through(s, s.input(2, 3), dtype), through(s, s.input(2, 3), dtype, 0.0625)
    return through(s, s.node("Concat", left, right, axis=0), dtype)


@idiom
def qdq_where(s: Sketch) -> str:
    dtype = either_type(s)
    chosen = s.node("Where", s.input(2, 3, dtype="bool"), through(s, s.input(2, 3), dtype), s.const(0.5))
    return through(s, chosen, dtype)


@idiom
def qdq_twice(s: Sketch) -> str:
    dtype = either_type(s)
    return through(s, through(s, s.input(2, 3), dtype), dtype, 0.0625)


@idiom
def qdq_twice_mixed(s: Sketch) -> str:
    return through(s, through(s, s.input(2, 3), "int8"), "uint8")


@idiom
def qdq_before_moves(s: Sketch) -> str:
    dtype = either_type(s)
    moved = s.node("Transpose", through(s, s.input(2, 3, 4), dtype), perm=[0, 2, 1])
    return through(s, s.node("Sigmoid", s.node("MaxPool", moved, kernel_shape=[2])), dtype)


@idiom
def qdq_between_moves(s: Sketch) -> str:
    """Draw one quantise-dequantise pair before operators that only move data, past which rules may move it."""
    dtype = either_type(s)
    moved = s.node("Transpose", through(s, s.input(2, 3, 4), dtype), perm=[0, 2, 1])
    return str(s.node("MatMul", s.node("Reshape", moved, s.ints(2, 4, 3)), s.input(2, 3, 5)))


@idiom
def qdq_shared(s: Sketch) -> Sequence[str]:
    dtype = either_type(s)
    x = through(s, s.input(3, 4), dtype)
    first = through(s, s.node("MatMul", x, fixed_weights(s, 4, 5)), dtype, 0.0625)
    return [first, through(s, s.node("Sigmoid", x), dtype)]


@idiom
def relu_quantised(s: Sketch) -> str:
    return str(s.node("QuantizeLinear", s.node("Relu", s.input(2, 3)), s.const(0.0625), s.const(0, "uint8")))


@idiom
def relu_quantised_signed(s: Sketch) -> str:
    return str(s.node("QuantizeLinear", s.node("Relu", s.input(2, 3)), s.const(0.0625), s.const(-128, "int8")))


@idiom
def clip_quantised(s: Sketch) -> str:
    bounded = s.node("Clip", s.input(2, 3), s.const(-10.0), s.const(100.0))  # more than the integers can hold
    return str(s.node("QuantizeLinear", bounded, s.const(0.0625), s.const(0, "uint8")))


@idiom
def relu_clip_quantised(s: Sketch) -> str:
    bounded = s.node("Clip", s.node("Relu", s.input(2, 3)), s.const(0.0), s.const(6.0))
    return through(s, bounded, "uint8")


@idiom
def matmul_integer_scaled(s: Sketch) -> str:
    whole = s.node("MatMulInteger", s.input(3, 4, dtype="uint8"), s.integers(4, 5, dtype="int8", low=-9, high=9),
                   s.const(3, "uint8"), s.const(0, "int8"))  # fmt: skip
    return str(s.node("Mul", s.writer.cast(whole, "float32"), s.const(0.25)))


@idiom
def matmul_dynamic(s: Sketch) -> str:
    """Draw a product that is quantised at run time by the range of the numbers."""
    a, scale, point = s.node("DynamicQuantizeLinear", s.input(3, 4), outputs=3)
    weights = s.integers(4, 5, dtype="int8", low=-90, high=90)
    whole = s.node("MatMulInteger", a, weights, point, s.const(0, "int8"))
    scaled = s.node("Mul", s.writer.cast(whole, "float32"), s.node("Mul", scale, s.const(0.0625)))
    return str(s.node("Add", scaled, s.weights(5))) if s.rng.random() < 0.5 else str(scaled)


@idiom
def matmul_four_bits(s: Sketch) -> str:
    """Draw a product with four-bit weights in blocks, as language models have them."""
    s.opset = 21
    return str(s.node("MatMul", s.input(3, 32), in_blocks(s)))


@idiom
def matmul_four_bits_bias(s: Sketch) -> str:
    s.opset = 21
    return str(s.node("Add", s.node("MatMul", s.input(3, 32), in_blocks(s)), s.weights(8)))


@idiom
def matmul_four_bits_bias_open(s: Sketch) -> str:
    s.opset, s.open_sizes = 21, True
    return str(s.node("Add", s.node("MatMul", s.input(2, 3, 32), in_blocks(s)), s.weights(8)))


def in_blocks(s: Sketch) -> str:
    """Add four-bit weights that are dequantised in blocks."""
    whole = s.integers(32, 8, dtype="uint4", low=0, high=15)
    return str(s.node("DequantizeLinear", whole, s.weights(2, 8, low=0.1), axis=0, block_size=16))
