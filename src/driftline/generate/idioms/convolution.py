"""Idioms of convolutions with operators that usually precede or follow them."""

from __future__ import annotations

from driftline.generate.idioms.sketch import Sketch, idiom

ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")


def convolved(s: Sketch, x: str, channels: int, filters: int, *, bias: bool | None = None, size: int = 3) -> str:
    operands = [x, s.weights(filters, channels, size, size)]
    if bias if bias is not None else s.rng.random() < 0.5:
        operands.append(s.weights(filters))
    return str(s.node("Conv", *operands, pads=[size // 2] * 4))


def normalised(s: Sketch, x: str, channels: int) -> str:
    scale, shift, mean = (s.weights(channels) for _ in range(3))
    return str(s.node("BatchNormalization", x, scale, shift, mean, s.weights(channels, low=0.25, high=2.0)))


def activated(s: Sketch, x: str, kind: str = "") -> str:
    return str(s.node(kind or s.rng.choice(ACTIVATIONS), x))


@idiom
def conv_batch_norm(s: Sketch) -> str:
    return normalised(s, convolved(s, s.input(1, 2, 5, 5), 2, 4), 4)


@idiom
def conv_mul(s: Sketch) -> str:
    return str(s.node("Mul", *s.either(convolved(s, s.input(1, 2, 5, 5), 2, 4), s.weights(4, 1, 1))))


@idiom
def conv_mul_scalar(s: Sketch) -> str:
    return str(s.node("Mul", convolved(s, s.input(1, 2, 5, 5), 2, 4), s.const(0.75)))


@idiom
def conv_add(s: Sketch) -> str:
    return str(s.node("Add", convolved(s, s.input(1, 2, 5, 5), 2, 4), s.weights(4, 1, 1)))


@idiom
def conv_add_batched(s: Sketch) -> str:
    return str(s.node("Add", convolved(s, s.input(1, 2, 5, 5), 2, 4), s.weights(1, 4, 1, 1)))


@idiom
def conv_activation(s: Sketch) -> str:
    return activated(s, convolved(s, s.input(1, 2, 5, 5), 2, 4))


@idiom
def conv_clip(s: Sketch) -> str:
    return str(s.node("Clip", convolved(s, s.input(1, 2, 5, 5), 2, 4), s.const(0.0), s.const(6.0)))


@idiom
def conv_residual_relu(s: Sketch) -> str:
    made = convolved(s, s.input(1, 2, 5, 5), 2, 4)
    return activated(s, s.node("Add", *s.either(made, s.input(1, 4, 5, 5))), "Relu")


@idiom
def conv_two_residual(s: Sketch) -> str:
    x = s.input(1, 4, 6, 6)
    return activated(s, s.node("Add", convolved(s, x, 4, 4), convolved(s, x, 4, 4)), "Relu")


@idiom
def conv_blocked(s: Sketch) -> str:
    """Draw convolutions whose channels come in whole blocks, as vectorised layouts need."""
    x = activated(s, convolved(s, s.input(1, 16, 6, 6), 16, 32), "Relu")
    y = s.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    return str(convolved(s, y, 32, 16, size=1))


@idiom
def conv_blocked_residual(s: Sketch) -> str:
    x = s.input(1, 16, 6, 6)
    first = convolved(s, x, 16, 16)
    second = normalised(s, convolved(s, activated(s, first, "Relu"), 16, 16), 16)
    pooled = s.node("GlobalAveragePool", activated(s, s.node("Add", second, first), "Relu"))
    return str(s.node("Concat", pooled, pooled, axis=1))


@idiom
def conv_depthwise(s: Sketch) -> str:
    made = s.node("Conv", s.input(1, 16, 6, 6), s.weights(16, 1, 3, 3), group=16, pads=[1, 1, 1, 1])
    return activated(s, made, "Relu")


@idiom
def conv_upsampled(s: Sketch) -> str:
    made = convolved(s, s.input(1, 16, 4, 4), 16, 16)
    scales = s.const([1.0, 1.0, 2.0, 2.0])
    return str(s.node("Resize", made, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric",
                      nearest_mode="floor"))  # fmt: skip


@idiom
def conv_line(s: Sketch) -> str:
    """Draw a convolution along one spatial axis."""
    made = s.node("Conv", s.input(1, 4, 9), s.weights(8, 4, 3), pads=[1, 1])
    return activated(s, normalised(s, made, 8), "Relu")


@idiom
def conv_half(s: Sketch) -> str:
    made = s.node("Conv", s.input(1, 8, 5, 5, dtype="float16"), s.weights(8, 8, 3, 3, dtype="float16"))
    return str(s.node("MaxPool", activated(s, made, "Relu"), kernel_shape=[2, 2]))


@idiom
def conv_transpose_batch_norm(s: Sketch) -> str:
    return normalised(s, s.node("ConvTranspose", s.input(1, 2, 4, 4), s.weights(2, 3, 2, 2)), 3)


@idiom
def pad_conv(s: Sketch) -> str:
    padded = s.node("Pad", s.input(1, 2, 5, 5), s.ints(0, 0, 1, 2, 0, 0, 0, 1), s.const(0.0))
    return str(s.node("Conv", padded, s.weights(3, 2, 3, 3)))


@idiom
def pad_max_pool(s: Sketch) -> str:
    padded = s.node("Pad", s.input(1, 2, 5, 5), s.ints(0, 0, 1, 1, 0, 0, 1, 1), s.const(0.0))
    return str(s.node("MaxPool", padded, kernel_shape=[3, 3]))


@idiom
def pad_average_pool(s: Sketch) -> str:
    padded = s.node("Pad", s.input(1, 2, 5, 5), s.ints(0, 0, 1, 1, 0, 0, 1, 1), s.const(0.0))
    return str(s.node("AveragePool", padded, kernel_shape=[3, 3], count_include_pad=1))


@idiom
def focus_slices(s: Sketch) -> str:
    """Draw four interleaved slices side by side, which is a space-to-depth."""
    x, parts = s.input(1, 2, 4, 6), []
    for column in (0, 1):
        for row in (0, 1):
            rows = s.node("Slice", x, s.ints(row), s.ints(2**31 - 1), s.ints(2), s.ints(2))
            parts.append(s.node("Slice", rows, s.ints(column), s.ints(2**31 - 1), s.ints(3), s.ints(2)))
    return convolved(s, s.node("Concat", *parts, axis=1), 8, 4)


@idiom
def focus_slices_together(s: Sketch) -> str:
    x, parts = s.input(1, 2, 4, 6), []
    for column in (0, 1):
        for row in (0, 1):
            ends = s.ints(2**31 - 1, 2**31 - 1)
            parts.append(s.node("Slice", x, s.ints(row, column), ends, s.ints(2, 3), s.ints(2, 2)))
    return str(s.node("Concat", *parts, axis=1))


@idiom
def conv_zero_bias(s: Sketch) -> str:
    return str(s.node("Conv", s.input(1, 2, 5, 5), s.weights(3, 2, 3, 3), s.const([0.0] * 3)))


@idiom
def conv_transpose_zero_bias(s: Sketch) -> str:
    return str(s.node("ConvTranspose", s.input(1, 2, 4, 4), s.weights(2, 3, 2, 2), s.const([0.0] * 3)))


@idiom
def conv_affine(s: Sketch) -> str:
    made = convolved(s, s.input(1, 2, 5, 5), 2, 4, bias=True)
    return str(s.node("Add", s.node("Mul", made, s.const(0.5)), s.const(0.25)))


@idiom
def affine_conv(s: Sketch) -> str:
    x = s.node("Add", s.node("Mul", s.input(1, 2, 5, 5), s.const(0.5)), s.const(0.25))
    return str(s.node("Conv", x, s.weights(4, 2, 3, 3), s.weights(4), pads=[0, 0, 0, 0]))


@idiom
def conv_same_padding(s: Sketch) -> str:
    return str(s.node("Conv", s.input(1, 2, 5, 5), s.weights(3, 2, 3, 3), auto_pad="SAME_UPPER"))


@idiom
def pad_conv_integer(s: Sketch) -> str:
    padded = s.node("Pad", s.input(1, 2, 5, 5, dtype="uint8"), s.ints(0, 0, 1, 1, 0, 0, 1, 1), s.const(0, "uint8"))
    return str(s.node("ConvInteger", padded, s.integers(3, 2, 3, 3, dtype="uint8", low=0, high=9)))


@idiom
def conv_integer_same_padding(s: Sketch) -> str:
    x = s.input(1, 2, 5, 5, dtype="uint8")
    return str(s.node("ConvInteger", x, s.integers(3, 2, 3, 3, dtype="uint8", low=0, high=9), auto_pad="SAME_LOWER"))
