"""The kernels that compute an operator: `log2` and `log10` both need a logarithm, all convolutions are `Conv`.

They are read from the ONNX forms in the table, so that they are known for every operator that has one. Operators that
only move or combine elements have no kernel of their own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from driftline.core.tensors import Array
from driftline.generate.base import GeneratorRequest, NoProgram
from driftline.generate.emit_onnx import OnnxWriter, apply
from driftline.generate.operator import Use
from driftline.generate.random_graph import random_graph
from driftline.generate.table import OPERATORS

_PLUMBING = frozenset(
    """
    Abs Add And Cast CastLike Concat Constant ConstantOfShape Div Dropout Equal Expand Flatten Gather GatherElements
    GatherND Identity Mul Neg Not Or Pad Range Reshape Shape Size Slice Split Squeeze Sub Transpose Unsqueeze Where Xor
    """.split()
)
# What computes nothing: which dtype the elements have is no matter to it.
MOVEMENT = frozenset(
    """
    Concat Constant ConstantOfShape DepthToSpace Expand Flatten Gather GatherElements GatherND Identity Pad Range
    Reshape Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze
    """.split()
)
_FAMILIES = {
    "a matrix product": "Gemm MatMul Einsum",
    "a logarithm": "Log LogSoftmax ReduceLogSum ReduceLogSumExp",
    "an ordering": "ArgMax ArgMin TopK",
    "a comparison": "Greater GreaterOrEqual Less LessOrEqual",
    "a maximum or minimum": "Max Min ReduceMax ReduceMin",
    "a normalisation": (
        "BatchNormalization GroupNormalization InstanceNormalization LayerNormalization RMSNormalization"
    ),
    "a recurrence": "GRU LSTM RNN",
    "a pooled maximum": "GlobalMaxPool MaxPool",
    "a pooled mean": "AveragePool GlobalAveragePool",
    "a sine": "Cos Sin Tan",
    "a hyperbolic sine": "Cosh Sinh Tanh",
    "a softmax": "LogSoftmax Softmax",
    "a resize": "Resize Upsample",
}
_DIMENSIONS = re.compile(r"[123]d(?=_|$)")  # how many an image has makes no other kernel


def _families(table: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for family, names in table.items():
        for name in names.split():
            found[name] = (*found.get(name, ()), family)
    return found


_FAMILY = _families(_FAMILIES)


@cache
def kernels(operator: str) -> frozenset[str]:
    """Return the kernels of an operator, in words; empty if it only moves or combines elements. An operator that is not
    in the table, or has no ONNX form, is its own kernel."""
    known = OPERATORS.get(operator)
    if known and known.onnx:
        with contextlib.suppress(NoProgram):
            return _in_words(_nodes(operator))
    return _in_words([_DIMENSIONS.sub("", operator.removeprefix("nn.functional."))])


@cache
def only_moves(operator: str) -> bool:
    """True if the operator only moves elements and computes nothing."""
    known = OPERATORS.get(operator)
    if known and known.onnx:
        with contextlib.suppress(NoProgram):
            return MOVEMENT.issuperset(_nodes(operator))
    return False


def _in_words(names: Iterable[str]) -> frozenset[str]:
    return frozenset(word for name in names if name not in _PLUMBING for word in _FAMILY.get(name, (name,)))


class _Listener(OnnxWriter):
    """Records the nodes that an ONNX form adds without creating them, so that reading a report does not need the onnx
    package."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._count = 0

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        self.asked.append(kind)
        return [self.fresh() for _ in range(outputs)] if outputs > 1 else self.fresh()

    def array(self, values: Array, name: str = "") -> str:
        return name or self.fresh()

    def cast(self, value: str, dtype: str) -> str:
        return str(self.node("Cast", value))


def _nodes(operator: str) -> list[str]:
    graph = random_graph(GeneratorRequest("onnx", operator, number=0))
    types, listener = graph.types(), _Listener()
    for node in graph.nodes:
        names = [str(number) for number in node.inputs]
        apply(listener, node.op, Use(names, [types[number] for number in node.inputs], node.outputs, node.attributes))
    return listener.asked
