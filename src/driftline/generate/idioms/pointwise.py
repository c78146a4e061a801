"""Idioms of elementwise operators that rules simplify."""

from __future__ import annotations

from driftline.generate.idioms.sketch import Sketch, idiom


@idiom
def relu_clip(s: Sketch) -> str:
    return str(s.node("Clip", s.node("Relu", s.input(2, 3)), s.const(s.rng.choice([-1.0, 0.0, 0.5])), s.const(2.0)))


@idiom
def relu_clip_old(s: Sketch) -> str:
    s.opset = 9
    return str(s.node("Clip", s.node("Relu", s.input(2, 3)), min=-1.0, max=2.0))


@idiom
def relu_clip_above(s: Sketch) -> str:
    return str(s.node("Clip", s.node("Relu", s.input(2, 3)), "", s.const(2.0)))


@idiom
def clip_relu(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Clip", s.input(2, 3), s.const(-1.0), s.const(2.0))))


@idiom
def clip_clip(s: Sketch) -> str:
    first = s.node("Clip", s.input(2, 3), s.const(-1.0), s.const(2.0))
    return str(s.node("Clip", first, s.const(-2.0), s.const(1.0)))


@idiom
def relu_relu(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Relu", s.input(2, 3))))


@idiom
def min_min(s: Sketch) -> str:
    return str(s.node("Min", s.node("Min", s.input(2, 3), s.const(1.0)), s.const(0.5)))


@idiom
def max_max(s: Sketch) -> str:
    return str(s.node("Max", s.node("Max", s.input(2, 3), s.const(-1.0)), s.const(0.5)))


@idiom
def min_max(s: Sketch) -> str:
    return str(s.node("Max", s.node("Min", s.input(2, 3), s.const(1.0)), s.const(-0.5)))


@idiom
def max_min(s: Sketch) -> str:
    return str(s.node("Min", s.node("Max", s.input(2, 3), s.const(-1.0)), s.const(0.5)))


@idiom
def div_mul(s: Sketch) -> str:
    return str(s.node("Mul", *s.either(s.node("Div", s.const(1.0), s.input(2, 3)), s.input(2, 3))))


@idiom
def not_where(s: Sketch) -> str:
    return str(s.node("Where", s.node("Not", s.input(2, 3, dtype="bool")), s.input(2, 3), s.input(2, 3)))


@idiom
def is_inf_any(s: Sketch) -> str:
    found = s.writer.cast(s.node("IsInf", s.input(2, 3)), "float32")
    return str(s.node("Greater", s.node("ReduceSum", found, keepdims=0), s.const(0.0)))


@idiom
def dropout_bias(s: Sketch) -> str:
    return str(s.node("Add", s.node("Dropout", s.node("Add", s.input(2, 3), s.weights(3))), s.input(2, 3)))


@idiom
def sum_of_squares(s: Sketch) -> str:
    x = s.input(2, 3)
    return str(s.node("Sqrt", s.node("ReduceSum", s.node("Mul", x, x), s.ints(1), keepdims=1)))


@idiom
def softmax_log(s: Sketch) -> str:
    return str(s.node("Log", s.node("Softmax", s.input(2, 3), axis=-1)))
