"""Idioms that move data: reshapes, transposes, slices, gathers, casts, and operators that do nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftline.generate.idioms.sketch import MACHINE_LEARNING, Sketch, idiom


def size_of(s: Sketch, shape: str, axis: int) -> str:
    """Add nodes that take one size from a shape, as a vector of one element."""
    return str(s.node("Unsqueeze", s.node("Gather", shape, s.const(axis, "int64")), s.ints(0)))


@idiom
def reshape_from_shape(s: Sketch) -> str:
    x = s.input(2, 3, 4)
    shape = s.node("Concat", size_of(s, s.node("Shape", x), 0), size_of(s, s.node("Shape", x), 1), s.ints(2), s.ints(2),
                   axis=0)  # fmt: skip
    return str(s.node("Reshape", x, shape))


@idiom
def reshape_from_one_shape(s: Sketch) -> str:
    x = s.input(2, 3, 4)
    return str(s.node("Reshape", x, s.node("Concat", size_of(s, s.node("Shape", x), 0), s.ints(-1), axis=0)))


@idiom
def reshape_reshape(s: Sketch) -> str:
    first = s.node("Reshape", s.input(2, 3, 4), s.ints(6, 4))
    return str(s.node("Reshape", first, s.ints(0, 2, -1)))


@idiom
def reshape_then_chain(s: Sketch) -> str:
    x = s.node("Squeeze", s.node("Unsqueeze", s.input(2, 1, 4), s.ints(0)), s.ints(0, 2))
    return str(s.node("Reshape", s.node("Flatten", x, axis=1), s.ints(4, 2)))


@idiom
def transposed_around(s: Sketch) -> str:
    x = s.node("Transpose", s.input(1, 3, 4, 2), perm=[0, 3, 1, 2])
    return str(s.node("Transpose", s.node("Relu", s.node("Add", x, s.weights(2, 1, 1))), perm=[0, 2, 3, 1]))


@idiom
def transpose_transpose(s: Sketch) -> str:
    return str(s.node("Transpose", s.node("Transpose", s.input(2, 3, 4), perm=[1, 2, 0]), perm=[2, 0, 1]))


@idiom
def transposed_reduced(s: Sketch) -> str:
    x = s.node("Transpose", s.input(2, 3, 4), perm=[0, 2, 1])
    return str(s.node("Transpose", s.node("ReduceSum", x, s.ints(1), keepdims=1), perm=[0, 2, 1]))


@idiom
def transposed_joined(s: Sketch) -> str:
    parts = [s.node("Transpose", s.input(2, 3, 4), perm=[2, 0, 1]) for _ in range(2)]
    joined = s.node("Concat", *parts, axis=0)
    return str(s.node("Transpose", s.node("Softmax", joined, axis=0), perm=[1, 2, 0]))


@idiom
def transposed_split(s: Sketch) -> Sequence[str]:
    x = s.node("Transpose", s.input(2, 3, 4), perm=[0, 2, 1])
    left, right = s.node("Split", x, s.ints(1, 3), outputs=2, axis=1)
    return [s.node("Transpose", left, perm=[0, 2, 1]), s.node("Transpose", right, perm=[0, 2, 1])]


@idiom
def transposed_padded(s: Sketch) -> str:
    x = s.node("Transpose", s.input(2, 3, 4), perm=[2, 1, 0])
    sliced = s.node("Slice", s.node("Pad", x, s.ints(1, 0, 0, 0, 1, 0)), s.ints(0), s.ints(3), s.ints(0))
    return str(s.node("Transpose", sliced, perm=[2, 1, 0]))


@idiom
def transposed_argmax(s: Sketch) -> str:
    return str(s.node("ArgMax", s.node("Transpose", s.input(2, 3, 4), perm=[1, 0, 2]), axis=0, keepdims=0))


@idiom
def gather_range(s: Sketch) -> str:
    return str(s.node("Gather", s.input(5, 3), s.node("Range", *(s.const(n, "int64") for n in (1, 4, 1))), axis=0))


@idiom
def gather_first_rows(s: Sketch) -> str:
    """Draw a gather of as many rows as another input has."""
    s.open_sizes = True
    x, other = s.input(5, 3), s.input(3, 2)
    rows = s.node("Gather", s.node("Shape", other), s.const(0, "int64"))
    return str(s.node("Gather", x, s.node("Range", s.const(0, "int64"), rows, s.const(1, "int64")), axis=0))


@idiom
def gather_each(s: Sketch) -> Sequence[str]:
    """Draw a gather of each index of an axis, which is a split."""
    x = s.node("Relu", s.input(2, 3, 4))
    return [s.node("Abs", s.node("Gather", x, s.const(place, "int64"), axis=1)) for place in range(3)]


@idiom
def slice_each(s: Sketch) -> Sequence[str]:
    x = s.node("Relu", s.input(2, 6))
    return [s.node("Abs", s.node("Slice", x, s.ints(at), s.ints(at + 2), s.ints(1), s.ints(1))) for at in (0, 2, 4)]


@idiom
def slice_everything(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Slice", s.input(2, 6), s.ints(0, 0), s.ints(2**63 - 1, 2**63 - 1), s.ints(0, 1))))


@idiom
def slice_slice(s: Sketch) -> str:
    first = s.node("Slice", s.input(6, 6), s.ints(1), s.ints(5), s.ints(0), s.ints(1))
    return str(s.node("Slice", first, s.ints(1), s.ints(5), s.ints(1), s.ints(1)))


@idiom
def slices_halves(s: Sketch) -> Sequence[str]:
    x = s.input(2, 4)
    left = s.node("Slice", x, s.ints(0), s.ints(2), s.ints(-1), s.ints(1))
    return [left, s.node("Slice", x, s.ints(2), s.ints(4), s.ints(-1), s.ints(1))]


@idiom
def expand_nothing(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Expand", s.input(2, 3), s.ints(1, 3))))


@idiom
def expand_then_add(s: Sketch) -> str:
    return str(s.node("Add", s.node("Expand", s.input(1, 3), s.ints(2, 3)), s.input(2, 3)))


@idiom
def cast_nothing(s: Sketch) -> str:
    return str(s.node("Relu", s.writer.cast(s.input(2, 3), "float32")))


@idiom
def cast_chain(s: Sketch) -> str:
    kinds = s.rng.choice([("float64", "float32"), ("float16", "float32"), ("int32", "float32"), ("bool", "float32")])
    x = s.input(2, 3)
    for kind in kinds:
        x = s.writer.cast(x, kind)
    return str(s.node("Neg", x))


@idiom
def cast_then_shape(s: Sketch) -> str:
    s.open_sizes = True
    x = s.input(2, 3, dtype="int64")
    return str(s.node("Add", s.node("Shape", s.writer.cast(x, "float32")), s.ints(1, 2)))


@idiom
def unsqueeze_constant(s: Sketch) -> str:
    return str(s.node("Add", s.input(2, 1, 3), s.node("Unsqueeze", s.weights(3), s.ints(0, 1))))


@idiom
def unsqueeze_constant_old(s: Sketch) -> str:
    s.opset = 11
    return str(s.node("Add", s.input(2, 1, 3), s.node("Unsqueeze", s.weights(3), axes=[0, 1])))


@idiom
def unsqueeze_unsqueeze(s: Sketch) -> str:
    return str(s.node("Unsqueeze", s.node("Unsqueeze", s.input(2, 3), s.ints(0)), s.ints(1)))


@idiom
def squeeze_reshape(s: Sketch) -> str:
    return str(s.node("Reshape", s.node("Squeeze", s.input(5)), s.ints(-1)))


@idiom
def identity_dropout(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Dropout", s.node("Identity", s.input(2, 3)))))


@idiom
def no_ops(s: Sketch) -> str:
    x = s.node("Sub", s.node("Add", s.input(2, 3), s.const(0.0)), s.const(0.0))
    return str(s.node("Relu", s.node("Div", s.node("Mul", x, s.const(1.0)), s.const(1.0))))


@idiom
def no_op_zero_first(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Add", s.const([0.0]), s.input(2, 3))))


@idiom
def same_twice(s: Sketch) -> str:
    x = s.input(2, 3)
    first, second = (s.node("Exp", s.node("Neg", x)) for _ in range(2))
    return str(s.node("Sub", first, s.node("Mul", second, x)))


@idiom
def constants_alone(s: Sketch) -> str:
    folded = s.node("Mul", s.node("Transpose", s.weights(3, 2), perm=[1, 0]), s.weights(2, 3))
    return str(s.node("Add", s.input(2, 3), s.node("Exp", folded)))


@idiom
def constants_equal(s: Sketch) -> str:
    x = s.input(2, 3)
    for _ in range(3):
        x = s.node("Mul", s.node("Sin", x), s.const(0.5))
    return x


@idiom
def scatter_everything(s: Sketch) -> str:
    return str(s.node("ScatterND", s.input(3, 2), s.const([[0], [1], [2]], "int64"), s.input(3, 2)))


@idiom
def constant_of_shape_cast(s: Sketch) -> str:
    made = s.writer.cast(s.node("ConstantOfShape", s.node("Shape", s.input(2, 3))), "int64")
    return str(s.node("Add", made, s.ints(1, 2, 3)))


@idiom
def constant_of_shape_cast_value(s: Sketch) -> str:
    from driftline.generate.emit_onnx import onnx_tensor

    value = onnx_tensor(np.array([2.5], np.float32), "value")
    made = s.node("ConstantOfShape", s.node("Shape", s.input(2, 3)), value=value)
    return str(s.node("Add", s.writer.cast(made, "int64"), s.ints(1, 2, 3)))


@idiom
def dropout_nothing(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Dropout", s.input(2, 3), s.const(0.0), s.const(False, "bool"))))


@idiom
def dropout_inference(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Dropout", s.input(2, 3), s.const(0.5), s.const(False, "bool"))))


@idiom
def add_nothing(s: Sketch) -> str:
    return str(s.node("Relu", s.node(s.rng.choice(["Add", "Sub"]), s.input(2, 3), s.const(0.0))))


@idiom
def dropout_ratio(s: Sketch) -> str:
    s.opset = 11
    return str(s.node("Relu", s.node("Dropout", s.input(2, 3), ratio=s.rng.choice([0.0, 0.5]))))


@idiom
def nothing_first(s: Sketch) -> str:
    x = s.node("Mul", s.const(1.0), s.input(2, 3))
    return str(s.node("Relu", s.node("Add", s.const(0.0), x)))


@idiom
def slices_halves_plain(s: Sketch) -> Sequence[str]:
    x = s.input(2, 4)
    return [s.node("Slice", x, s.ints(at), s.ints(at + 2), s.ints(-1)) for at in (0, 2)]


@idiom
def transpose_nothing(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Transpose", s.input(2, 3), perm=[0, 1])))


@idiom
def scatter_everything_shaped(s: Sketch) -> str:
    """Draw a scatter whose indices are computed from the shape of the overwritten tensor."""
    x = s.input(3, 2)
    count = s.node("Gather", s.node("Shape", x), s.const(0, "int64"))
    places = s.node("Range", s.const(0, "int64"), count, s.const(1, "int64"))
    return str(s.node("ScatterND", x, s.node("Unsqueeze", places, s.ints(-1)), s.input(3, 2)))


@idiom
def multiply_by_nothing(s: Sketch) -> str:
    return str(s.node("Relu", s.node(s.rng.choice(["Mul", "Div"]), s.input(2, 3), s.const(1.0))))


@idiom
def slice_everything_by_size(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Slice", s.input(2, 6), s.ints(0), s.ints(6), s.ints(1), s.ints(1))))


@idiom
def slice_beyond(s: Sketch) -> str:
    """Draw a slice with the limit that exporters write for "to the end"."""
    return str(s.node("Relu", s.node("Slice", s.input(2, 6), s.ints(0), s.ints(2**63 - 1), s.ints(1), s.ints(1))))


@idiom
def expand_to_itself(s: Sketch) -> str:
    return str(s.node("Relu", s.node("Expand", s.input(2, 3), s.ints(2, 3))))


@idiom
def labels_twice(s: Sketch) -> str:
    x = s.input(4, dtype="int64", values="index:5")
    first = s.node("LabelEncoder", x, domain=MACHINE_LEARNING, keys_int64s=[0, 1, 2], values_strings=list("abc"),
                   default_string="z")  # fmt: skip
    return str(s.node("LabelEncoder", first, domain=MACHINE_LEARNING, keys_strings=list("acz"), values_int64s=[7, 8, 9],
                      default_int64=-1))  # fmt: skip
