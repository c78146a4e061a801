"""Idioms of layer normalisation and of the activations of transformers, in elementary operators."""

from __future__ import annotations

from driftline.generate.idioms.sketch import Sketch, idiom


def mean(s: Sketch, x: str) -> str:
    if s.opset >= 18:
        return str(s.node("ReduceMean", x, s.ints(-1), keepdims=1))
    return str(s.node("ReduceMean", x, axes=[-1], keepdims=1))


def layer_norm(s: Sketch, x: str, size: int, *, bias: bool = True) -> str:
    centred = s.node("Sub", x, mean(s, x))
    spread = s.node("Sqrt", s.node("Add", mean(s, s.node("Pow", centred, s.const(2.0))), s.const(1e-5)))
    scaled = s.node("Mul", s.node("Div", centred, spread), s.weights(size, low=0.5))
    return str(s.node("Add", scaled, s.weights(size))) if bias else str(scaled)


@idiom
def layer_norm_3d(s: Sketch) -> str:
    return layer_norm(s, s.input(2, 3, 8), 8)


@idiom
def layer_norm_2d(s: Sketch) -> str:
    return layer_norm(s, s.input(4, 6), 6)


@idiom
def layer_norm_old(s: Sketch) -> str:
    s.opset = 13
    return layer_norm(s, s.input(2, 3, 8), 8)


@idiom
def layer_norm_mul_for_pow(s: Sketch) -> str:
    x = s.input(2, 3, 8)
    centred = s.node("Sub", x, mean(s, x))
    spread = s.node("Sqrt", s.node("Add", mean(s, s.node("Mul", centred, centred)), s.const(1e-5)))
    return str(s.node("Add", s.node("Mul", s.node("Div", centred, spread), s.weights(8)), s.weights(8)))


@idiom
def layer_norm_two_subs(s: Sketch) -> str:
    x = s.input(2, 3, 8)
    middle = mean(s, x)
    spread = mean(s, s.node("Pow", s.node("Sub", x, middle), s.const(2.0)))
    root = s.node("Sqrt", s.node("Add", spread, s.const(1e-5)))
    divided = s.node("Div", s.node("Sub", x, middle), root)
    return str(s.node("Add", s.node("Mul", divided, s.weights(8)), s.weights(8)))


@idiom
def rms_norm(s: Sketch) -> str:
    x = s.input(2, 3, 8)
    root = s.node("Sqrt", s.node("Add", mean(s, s.node("Pow", x, s.const(2.0))), s.const(1e-6)))
    return str(s.node("Mul", *s.either(s.node("Div", x, root), s.weights(8))))


@idiom
def rms_norm_reciprocal(s: Sketch) -> str:
    x = s.input(2, 3, 8)
    root = s.node("Sqrt", s.node("Add", mean(s, s.node("Pow", x, s.const(2.0))), s.const(1e-6)))
    return str(s.node("Mul", s.weights(8), s.node("Mul", x, s.node("Reciprocal", root))))


@idiom
def rms_norm_half(s: Sketch) -> str:
    """Draw an RMS norm in float32 between two casts, as language models have it."""
    x = s.writer.cast(s.input(2, 3, 8, dtype="float16"), "float32")
    root = s.node("Sqrt", s.node("Add", mean(s, s.node("Pow", x, s.const(2.0))), s.const(1e-6)))
    return str(s.node("Mul", s.writer.cast(s.node("Div", x, root), "float16"), s.weights(8, dtype="float16")))


@idiom
def skip_layer_norm(s: Sketch) -> str:
    s.opset = 17
    added = s.node("Add", s.input(2, 3, 8), s.input(2, 3, 8))
    return str(s.node("LayerNormalization", added, s.weights(8), s.weights(8), axis=-1))


@idiom
def skip_layer_norm_bias(s: Sketch) -> str:
    added = s.node("Add", s.node("Add", s.input(2, 3, 8), s.weights(8)), s.input(2, 3, 8))
    return str(s.node("LayerNormalization", added, s.weights(8), s.weights(8), axis=-1))


@idiom
def skip_layer_norm_projected(s: Sketch) -> str:
    projected = s.node("Add", s.node("MatMul", s.input(2, 3, 4), s.weights(4, 8)), s.weights(8))
    return layer_norm(s, s.node("Add", projected, s.input(2, 3, 8)), 8)


def gelu(s: Sketch, x: str) -> str:
    root = s.node("Erf", s.node("Div", x, s.const(1.4142135381698608)))
    inner = s.node("Add", root, s.const(1.0))
    if s.rng.random() < 0.5:
        return str(s.node("Mul", s.node("Mul", x, inner), s.const(0.5)))
    return str(s.node("Mul", s.node("Mul", x, s.const(0.5)), inner))


@idiom
def gelu_erf(s: Sketch) -> str:
    return gelu(s, s.input(2, 3, 8))


@idiom
def gelu_erf_new(s: Sketch) -> str:
    """Draw a Gelu in elementary operators under an opset that has the operator itself."""
    s.opset = 20
    return gelu(s, s.input(2, 3, 8))


@idiom
def gelu_bias(s: Sketch) -> str:
    return gelu(s, s.node("Add", s.input(2, 3, 8), s.weights(8)))


@idiom
def gelu_operator_bias(s: Sketch) -> str:
    s.opset = 20
    return str(s.node("Gelu", s.node("Add", s.input(2, 3, 8), s.weights(8))))


@idiom
def gelu_operator(s: Sketch) -> str:
    s.opset = 20
    return str(s.node("Gelu", s.node("MatMul", s.input(3, 4), s.weights(4, 8))))


def fast_gelu(s: Sketch, x: str) -> str:
    cubed = s.node("Mul", s.node("Pow", x, s.const(3.0)), s.const(0.044714998453855515))
    inner = s.node("Mul", s.node("Add", x, cubed), s.const(0.7978845834732056))
    outer = s.node("Add", s.node("Tanh", inner), s.const(1.0))
    return str(s.node("Mul", s.node("Mul", x, s.const(0.5)), outer))


@idiom
def gelu_tanh(s: Sketch) -> str:
    return fast_gelu(s, s.input(2, 3, 8))


@idiom
def gelu_tanh_old(s: Sketch) -> str:
    s.opset = 13
    return fast_gelu(s, s.input(2, 3, 8))


@idiom
def gelu_tanh_product(s: Sketch) -> str:
    """Draw a tanh Gelu with the cube written as a product."""
    x = s.input(2, 3, 8)
    squared = s.node("Mul", x, s.node("Mul", x, s.const(0.044714998453855515)))
    inner = s.node("Mul", s.node("Mul", x, s.const(0.7978845834732056)), s.node("Add", squared, s.const(1.0)))
    return str(s.node("Mul", s.node("Mul", x, s.const(0.5)), s.node("Add", s.node("Tanh", inner), s.const(1.0))))


@idiom
def gelu_tanh_bias(s: Sketch) -> str:
    return fast_gelu(s, s.node("Add", s.input(2, 3, 8), s.weights(8)))


@idiom
def quick_gelu(s: Sketch) -> str:
    x = s.input(2, 3, 8)
    return str(s.node("Mul", *s.either(x, s.node("Sigmoid", s.node("Mul", x, s.const(1.7020000219345093))))))


@idiom
def silu(s: Sketch) -> str:
    x = s.input(2, 3, 8)
    return str(s.node("Mul", *s.either(x, s.node("Sigmoid", x))))


@idiom
def hard_swish(s: Sketch) -> str:
    x = s.input(2, 3, 4)
    bounded = s.node("Clip", s.node("Add", x, s.const(3.0)), s.const(0.0), s.const(6.0))
    return str(s.node("Div", s.node("Mul", bounded, x), s.const(6.0)))


@idiom
def bias_softmax(s: Sketch) -> str:
    return str(s.node("Softmax", s.node("Add", s.input(2, 2, 3, 3), s.input(2, 1, 1, 3)), axis=-1))


@idiom
def instance_norm_group(s: Sketch) -> str:
    shaped = s.node("Reshape", s.input(1, 4, 3, 3), s.ints(0, 2, -1))
    made = s.node("InstanceNormalization", shaped, s.const([1.0, 1.0]), s.const([0.0, 0.0]))
    back = s.node("Reshape", made, s.ints(1, 4, 3, 3))
    return str(s.node("Add", s.node("Mul", back, s.weights(4, 1, 1)), s.weights(4, 1, 1)))


@idiom
def layer_norm_reciprocal(s: Sketch) -> str:
    """Draw a layer norm with the reciprocal of the root, as some exporters write it."""
    x = s.input(2, 3, 8)
    centred = s.node("Sub", x, mean(s, x))
    spread = mean(s, s.node("Mul", centred, centred))
    root = s.node("Reciprocal", s.node("Sqrt", s.node("Add", spread, s.const(1e-5))))
    scaled = s.node("Mul", s.node("Mul", centred, root), s.weights(8))
    return str(s.node("Add", scaled, s.weights(8)))


@idiom
def rms_norm_operator_skip(s: Sketch) -> str:
    s.opset = 23
    added = s.node("Add", s.input(2, 3, 8), s.input(2, 3, 8))
    return str(s.node("RMSNormalization", added, s.weights(8), axis=-1))


@idiom
def softmax_cast(s: Sketch) -> str:
    """Draw a softmax in float32 between two casts."""
    x = s.writer.cast(s.input(2, 3, dtype="float16"), "float32")
    return s.writer.cast(str(s.node("Softmax", x, axis=-1)), "float16")


@idiom
def gelu_tanh_scaled(s: Sketch) -> str:
    """Draw a tanh Gelu with the constants placed as in a decomposed Gelu."""
    x = s.input(2, 3, 8)
    cubed = s.node("Mul", s.const(0.044715), s.node("Pow", x, s.const(3.0)))
    inner = s.node("Mul", s.const(0.7978845608028654), s.node("Add", x, cubed))
    outer = s.node("Add", s.node("Tanh", inner), s.const(1.0))
    return str(s.node("Mul", x, s.node("Mul", s.const(0.5), outer)))


@idiom
def gelu_erf_halved(s: Sketch) -> str:
    x = s.input(2, 3, 8)
    outer = s.node("Add", s.node("Erf", s.node("Mul", x, s.const(0.7071067690849304))), s.const(1.0))
    return str(s.node("Mul", x, s.node("Mul", s.const(0.5), outer)))


@idiom
def gelu_erf_half_first(s: Sketch) -> str:
    x = s.input(2, 3, 8)
    outer = s.node("Add", s.node("Erf", s.node("Div", x, s.const(1.4142135623730951))), s.const(1.0))
    return str(s.node("Mul", s.const(0.5), s.node("Mul", x, outer)))


@idiom
def gelu_operator_bias_first(s: Sketch) -> str:
    s.opset = 20
    return str(s.node("Gelu", s.node("Add", s.weights(8), s.input(2, 3, 8))))


@idiom
def layer_norm_then_bias(s: Sketch) -> str:
    made = s.node("LayerNormalization", s.input(2, 3, 8), s.weights(8), axis=-1)
    return str(s.node("Add", made, s.weights(8)))


@idiom
def rms_norm_cast(s: Sketch) -> str:
    """Draw an RMS norm in float32 between two casts, with the reciprocal of the root."""
    x = s.writer.cast(s.input(2, 3, 8, dtype="float16"), "float32")
    squared = s.node("Pow", x, s.const(2.0))
    middle = s.node("ReduceMean", squared, s.ints(-1), keepdims=1, noop_with_empty_axes=0)
    root = s.node("Reciprocal", s.node("Sqrt", s.node("Add", middle, s.const(1e-6))))
    scaled = s.writer.cast(str(s.node("Mul", x, root)), "float16")
    return str(s.node("Mul", *s.either(scaled, s.weights(8, dtype="float16"))))
