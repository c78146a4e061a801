"""Keep a program meaningful while it is made smaller.

A *flaw* is something that no sensible program has: a scale of 0, an epsilon of 0, a division by zero, an index out of
range, a NaN or an infinity, a tensor without elements. A candidate may have the flaws that the original has (perhaps
they are what fails), and no others: a wrong value that is reduced to a division by zero is another bug.

The table is by operator and argument. ONNX operators and torch functions stand in it side by side, since their names
differ. This runs in workers, on the values of a candidate's own reference run, wherever they come from: a constant, an
input, or another operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from driftline.core.tensors import Array, is_float
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramNode, short_name

NOT_FINITE = "a value is NaN or infinite"
EMPTY = "a tensor has no elements"


class Domain(Enum):
    """A condition on every element of an argument: the words for a violation, and the test."""

    POSITIVE = ("is not positive and finite", lambda a: (a > 0) & np.isfinite(a))
    NOT_NEGATIVE = ("is negative", lambda a: ~(a < 0))
    NOT_ZERO = ("is 0", lambda a: a != 0)
    PROBABILITY = ("is not between 0 and 1", lambda a: (a >= 0) & (a <= 1))
    ABOVE_MINUS_ONE = ("is not above -1", lambda a: a > -1)
    UNIT = ("is not between -1 and 1", lambda a: np.abs(a) <= 1)

    def __init__(self, words: str, complies: Callable[[Array], Array]) -> None:
        self.words = words
        self.complies = complies

    def broken_by(self, array: Array) -> bool:
        with np.errstate(all="ignore"):
            return array.dtype.kind in "biuf" and not bool(np.all(self.complies(array)))


@dataclass(frozen=True)
class ArgumentWithDomain:
    """An argument with a domain. `place` is the index of an input or positional argument, `name` that of an attribute
    or keyword; torch accepts most arguments either way.
    """

    what: str
    domain: Domain
    place: int | None = None
    name: str = ""


def _scale(*places: int) -> tuple[ArgumentWithDomain, ...]:
    return tuple(ArgumentWithDomain("the scale", Domain.POSITIVE, place, "scale") for place in places)


def _eps(place: int | None = None, name: str = "eps") -> ArgumentWithDomain:
    return ArgumentWithDomain("epsilon", Domain.POSITIVE, place, name)


def _variance(place: int) -> ArgumentWithDomain:
    return ArgumentWithDomain("the variance", Domain.NOT_NEGATIVE, place, "running_var")


def _ratio(place: int | None, name: str) -> tuple[ArgumentWithDomain, ...]:
    return (ArgumentWithDomain("the probability", Domain.PROBABILITY, place, name),)


def _argument(domain: Domain, place: int = 0) -> tuple[ArgumentWithDomain, ...]:
    return (ArgumentWithDomain("the divisor" if domain is Domain.NOT_ZERO else "the argument", domain, place, "input"),)


_EPSILON = (_eps(name="epsilon"),)
_DIVISION = (ArgumentWithDomain("the divisor", Domain.NOT_ZERO, 1, "other"),)

DOMAINS: Mapping[str, tuple[ArgumentWithDomain, ...]] = {
    # ONNX: quantisation
    "QuantizeLinear": _scale(1), "DequantizeLinear": _scale(1), "QLinearMatMul": _scale(1, 4, 6),
    "QLinearConv": _scale(1, 4, 6), "QLinearAdd": _scale(1, 4, 6), "QLinearMul": _scale(1, 4, 6),
    "QLinearSigmoid": _scale(1, 3), "QLinearLeakyRelu": _scale(1, 3), "QLinearAveragePool": _scale(1, 3),
    "QLinearGlobalAveragePool": _scale(1, 3), "QLinearSoftmax": _scale(1, 3), "QGemm": _scale(1, 4, 7),
    "DynamicQuantizeMatMul": _scale(2), "MatMulIntegerToFloat": _scale(2, 3), "MatMulNBits": _scale(2),
    # ONNX: norms
    "LayerNormalization": _EPSILON, "SimplifiedLayerNormalization": _EPSILON, "RMSNormalization": _EPSILON,
    "SkipLayerNormalization": _EPSILON, "SkipSimplifiedLayerNormalization": _EPSILON, "GroupNormalization": _EPSILON,
    "InstanceNormalization": _EPSILON,
    "BatchNormalization": (_variance(4), *_EPSILON),
    # ONNX: the rest
    "Dropout": _ratio(1, "ratio"), "Bernoulli": _argument(Domain.PROBABILITY), "Resize": _scale(2),
    "Upsample": _scale(1),
    "Div": _DIVISION, "Mod": _DIVISION, "Reciprocal": _argument(Domain.NOT_ZERO), "Log": _argument(Domain.POSITIVE),
    "Sqrt": _argument(Domain.NOT_NEGATIVE), "Acos": _argument(Domain.UNIT), "Asin": _argument(Domain.UNIT),
    # torch: quantisation
    "quantize_per_tensor": _scale(1), "dequantize_per_tensor": _scale(1), "quantize_per_channel": _scale(1),
    "dequantize_per_channel": _scale(1), "fake_quantize_per_tensor_affine": _scale(1),
    "fake_quantize_per_channel_affine": _scale(1),
    # torch: norms
    "layer_norm": (_eps(4),), "native_layer_norm": (_eps(4),), "group_norm": (_eps(4),),
    "native_group_norm": (_eps(7),), "rms_norm": (_eps(3),), "instance_norm": (_eps(7),),
    "torch.nn.functional.batch_norm": (_variance(2), _eps(7)), "batch_norm": (_variance(4), _eps(7)),
    "native_batch_norm": (_variance(4), _eps(7)), "normalize": (_eps(3),), "cosine_similarity": (_eps(3),),
    "_native_batch_norm_legit_no_training": (_variance(4), _eps(6)),
    # torch: the rest
    "dropout": _ratio(1, "p"), "alpha_dropout": _ratio(1, "p"), "feature_dropout": _ratio(1, "p"),
    "bernoulli": _argument(Domain.PROBABILITY), "binary_cross_entropy": _argument(Domain.PROBABILITY),
    "div": _DIVISION, "true_divide": _DIVISION, "truediv": _DIVISION, "floor_divide": _DIVISION, "floordiv": _DIVISION,
    "divide": _DIVISION, "remainder": _DIVISION, "fmod": _DIVISION, "mod": _DIVISION,
    "addcdiv": (ArgumentWithDomain("the divisor", Domain.NOT_ZERO, 2, "tensor2"),),
    "reciprocal": _argument(Domain.NOT_ZERO), "log": _argument(Domain.POSITIVE), "log2": _argument(Domain.POSITIVE),
    "log10": _argument(Domain.POSITIVE), "log1p": _argument(Domain.ABOVE_MINUS_ONE),
    "rsqrt": _argument(Domain.POSITIVE),
    "sqrt": _argument(Domain.NOT_NEGATIVE), "acos": _argument(Domain.UNIT), "asin": _argument(Domain.UNIT),
}  # fmt: skip

# Operators that read the first input at the indices that the second holds. torch's own functions raise for others.
_INDEXED = ("Gather", "GatherElements", "ScatterElements")


def flaws(graph: ProgramGraph, values: Mapping[int, Array]) -> set[str]:
    """Return the flaws of the program on these values, given by number, as far as they are known."""
    found = {flaw for node in graph.nodes for flaw in _of_node(node, values)}
    return found | flaws_of_arrays(values.values())


def flaws_of_arrays(arrays: Any) -> set[str]:
    """Return the flaws that values show by themselves: an empty tensor, a NaN or an infinity."""
    found = set()
    for array in arrays:
        if not array.size:
            found.add(EMPTY)
        elif (is_float(array.dtype.name) or array.dtype.kind == "c") and not np.isfinite(array).all():
            found.add(NOT_FINITE)
    return found


def not_zero(graph: ProgramGraph) -> set[int]:
    """Return the numbers of the leaves for which 0 would be a flaw."""
    leaves = set()
    for node in graph.nodes:
        for argument in _arguments(node):
            number = _operand(node, argument)
            if number in graph.leaf and argument.domain.broken_by(np.zeros(1, np.float32)):
                leaves.add(number)
    return leaves


def _arguments(node: ProgramNode) -> tuple[ArgumentWithDomain, ...]:
    """Return the arguments of a node that have a domain, by its full name or else by its short name."""
    return DOMAINS.get(node.op) or DOMAINS.get(short_name(node.op), ())


def _of_node(node: ProgramNode, values: Mapping[int, Array]) -> Iterator[str]:
    name = short_name(node.op)
    for argument in _arguments(node):
        array = _held(node, argument, values)
        if array is not None and argument.domain.broken_by(array):
            yield f"{argument.what} of {name} {argument.domain.words}"
    if name in _INDEXED and _out_of_range(node, values):
        yield f"an index of {name} is out of range"
    if name == "DequantizeLinear" and _has_idle_zero_point(node, values):
        yield f"the zero point of {name} is not 0, for 32-bit integers"


def _held(node: ProgramNode, argument: ArgumentWithDomain, values: Mapping[int, Array]) -> Array | None:
    """Return the value of an argument: a number that is written in the program, or the value of an operand."""
    number = _operand(node, argument)
    if number is not None:
        return values.get(number)
    written = _written(node, argument)
    return None if written is None else np.asarray(written, np.float64)


def _operand(node: ProgramNode, argument: ArgumentWithDomain) -> int | None:
    if "args" not in node.attributes:  # an ONNX node
        place = argument.place
        return node.inputs[place] if place is not None and place < len(node.inputs) else None
    given = _given(node, argument)
    return node.operands[given["$"]] if isinstance(given, dict) and "$" in given else None


def _written(node: ProgramNode, argument: ArgumentWithDomain) -> Any:
    """Return a number, or several, from the attributes; None if there is none."""
    if "args" not in node.attributes:
        held = node.attributes.get(argument.name)
        return next((held[kind] for kind in "fiFI" if kind in held), None) if isinstance(held, dict) else None
    given = _given(node, argument)
    return given if isinstance(given, (int, float)) and not isinstance(given, bool) else None


def _given(node: ProgramNode, argument: ArgumentWithDomain) -> Any:
    """Return an argument of a torch call as JSON in the form of `fx_arguments.py`."""
    args = node.attributes["args"]
    if argument.place is not None and argument.place < len(args):
        return args[argument.place]
    return node.attributes.get("kwargs", {}).get(argument.name)


def _out_of_range(node: ProgramNode, values: Mapping[int, Array]) -> bool:
    data, indices = (None if n is None else values.get(n) for n in node.inputs[:2])
    if data is None or indices is None or not data.ndim or indices.dtype.kind not in "iu":
        return False
    axis = node.attributes.get("axis", {}).get("i", 0)
    if not -data.ndim <= axis < data.ndim:
        return False  # the reference says so
    size = data.shape[axis]
    return bool(np.any((indices < -size) | (indices >= size)))


def _has_idle_zero_point(node: ProgramNode, values: Mapping[int, Array]) -> bool:
    number = node.inputs[2] if len(node.inputs) > 2 else None
    array = None if number is None else values.get(number)
    return array is not None and array.dtype.name == "int32" and bool(np.any(array))
