"""Which ONNX operators make decisions (steps and choices), and which of their choices are valid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.shadow.decisions import REACH, DecidingArgument, choice_problem

_STEPS = {
    "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "Hardmax", "IsInf", "IsNaN", "Less", "LessOrEqual",
    "Mod", "NonMaxSuppression", "NonZero", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Round", "Shrink", "Sign",
    "ThresholdedRelu", "Unique",
}  # fmt: skip
# These compute something before the step, so that even exact arguments may fall to either side.
_COMPUTE_FIRST = {"Mod", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Resize", "Upsample", "GridSample"}
QUANTISING = {"QLinearConv", "QLinearMatMul", "QuantizeLinear"}
READS_CODES = {"QLinearConv", "QLinearMatMul", "DequantizeLinear", "ConvInteger", "MatMulInteger"}
_CHOICES = {"ArgMax": 0, "ArgMin": 0, "TopK": 1, "MaxPool": 1}  # operator -> number of the result with the indices


def index_result(node: Any) -> int | None:
    """Return the number of the result that holds the chosen indices, or `None` if the node makes no choice."""
    index = _CHOICES.get(node.op_type)
    return index if index is not None and index < len(node.output) and node.output[index] else None


def decides(node: Any, leaves_floats: bool) -> bool:
    """True if the node is a step or a choice. `leaves_floats`: it casts to a type that the shadow does not keep as a
    float."""
    name = node.op_type
    nearest = name in ("Resize", "Upsample", "GridSample") and getattr(node, "mode", None) in (None, "nearest")
    return leaves_floats or nearest or name in _STEPS or index_result(node) is not None


def unsettled_by(node: Any, position: int, argument: DecidingArgument) -> Array | bool:
    """Return a mask of the elements of an argument that rounding makes finite or not finite; for a divisor, also zero
    or not zero."""
    if node.op_type != "Mod" or position != 1:
        return argument.unsettled
    return argument.unsettled | ((REACH * argument.sigma >= np.abs(argument.reference)) & (argument.sigma > 0))


def axis_of(node: Any) -> int | None:
    """Return the axis along which the node chooses, or `None` for a step."""
    return Choice.of(node).axis if node.op_type in _CHOICES else None


def own_errors(node: Any, values: dict[int, Array], dtype: str | None, arithmetic: Arithmetic) -> dict[int, Array]:
    """Return, by position, the errors that the operator makes in its arguments before it decides: one rounding each, or
    nothing if the operator computes nothing before the decision."""
    if node.op_type not in _COMPUTE_FIRST or dtype is None:
        return {}
    unit = arithmetic.unit(dtype)
    if node.op_type == "QuantizeLinear" and 1 in values and values[1].size == 1:
        with np.errstate(all="ignore"):
            quotient = values[0] / values[1].reshape(-1)[0]
            exact = quotient.astype(numpy_dtype(dtype)).astype(np.float64) == quotient
        return {0: np.where(exact, 0.0, unit * np.abs(values[0]))}
    if node.op_type in ("Resize", "Upsample"):  # only the scales decide
        return {position: unit * np.abs(v) for position, v in values.items() if position in (1, 2)}
    return {position: unit * np.abs(value) for position, value in values.items()}


@dataclass(frozen=True)
class Choice:
    """The rules of a choosing operator: its axis, and which choices are valid."""

    axis: int | None
    distinct: bool
    in_order: bool
    first_wins: bool

    @staticmethod
    def of(node: Any) -> Choice:
        """Return the rules of a choosing node."""
        if node.op_type == "MaxPool":  # indices into the flattened tensor; windows overlap
            return Choice(None, distinct=False, in_order=True, first_wins=False)
        ordered = node.op_type != "TopK" or getattr(node, "sorted", 1) in (None, 1)
        axis = getattr(node, "axis", None)
        default = -1 if node.op_type == "TopK" else 0
        return Choice(default if axis is None else int(axis), distinct=True, in_order=ordered, first_wins=True)

    def problem(self, argument: DecidingArgument | None, expected: Array, chosen: Array, wanted: Array | None) -> str:
        """Return why the choice `chosen` is not valid, or an empty string if it is."""
        return choice_problem(
            argument,
            self.axis,
            expected,
            chosen,
            distinct=self.distinct,
            in_order=self.in_order,
            first_wins=self.first_wins,
            wanted=wanted if self.axis is None else None,  # the evaluator's indices in a pool are not reliable
        )

    def picked(self, values: Array, chosen: Array, result: Array) -> Array:
        """Return the values at the chosen indices."""
        if self.axis is None or not values.ndim:
            return result
        return np.take_along_axis(values, chosen, self.axis % values.ndim)
