"""Checks that a lowered function stays inside its buffers. Guard bytes detect writes beside its parameters, but a write
beside one of its own buffers may damage nothing until a pass puts buffers together.

Loops have few iterations, so every index is computed for all iterations at once. Indices that depend on data are not
checked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftline.core.tensors import Array

_MOST = 4_000_000  # iterations of a nest that are looked at
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Min": np.minimum,
    "Max": np.maximum,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
    "And": np.logical_and,
    "Or": np.logical_or,
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
}


class _Unknown(Exception):
    """Raised when an index depends on data, or on something unknown here."""


@dataclass(frozen=True)
class _Nest:
    """The loops around a statement: the values of their variables, each along its own axis, and a mask of the
    iterations that reach the statement."""

    values: Mapping[int, Array]
    reached: Array

    def inside(self, loop: Any) -> _Nest:
        first, count = np.asarray(self.value(loop.min)), np.asarray(self.value(loop.extent))
        steps = np.arange(max(int(count.max(initial=0)), 0)).reshape(-1, *(1,) * self.reached.ndim)
        if steps.size * self.reached.size > _MOST:
            raise _Unknown
        return _Nest({**self.values, hash(loop.loop_var): first + steps}, self.reached & (steps < count))

    def where(self, condition: Any, holds: bool = True) -> _Nest:
        try:
            found = np.asarray(self.value(condition), bool)
        except _Unknown:
            return self
        return replace(self, reached=self.reached & (found if holds else ~found))

    def value(self, expression: Any) -> Any:
        name = type(expression).__name__
        if name == "IntImm":
            return int(expression.value)
        if name == "Var" and hash(expression) in self.values:
            return self.values[hash(expression)]
        if name in _OPERATORS:
            return _OPERATORS[name](self.value(expression.a), self.value(expression.b))
        if name == "Not":
            return np.logical_not(self.value(expression.a))
        if name == "Cast":
            return self.value(expression.value)
        if name == "Call" and _called(expression) == "likely":
            return self.value(expression.args[0])
        raise _Unknown


def outside(function: Any) -> str:
    """Return the name of a buffer that a flattened function accesses out of bounds, or an empty string."""
    try:
        return next(_statement(function.body, _Nest({}, np.ones((), bool))), "")
    except _Unknown:
        return ""


def _statement(statement: Any, nest: _Nest) -> Iterator[str]:
    name = type(statement).__name__
    if name == "For":
        yield from _statement(statement.body, nest.inside(statement))
    elif name == "IfThenElse":
        yield from _accesses(statement.condition, nest)
        yield from _statement(statement.then_case, nest.where(statement.condition))
        if statement.else_case is not None:
            yield from _statement(statement.else_case, nest.where(statement.condition, holds=False))
    elif name == "SeqStmt":
        for one in statement.seq:
            yield from _statement(one, nest)
    elif name == "BufferStore":
        yield from _accesses(statement.value, nest)
        yield from _access(statement.buffer, statement.indices, nest)
    elif name in ("Bind", "Evaluate"):
        yield from _accesses(statement.value, nest)
    elif hasattr(statement, "body"):
        yield from _statement(statement.body, nest)


def _accesses(expression: Any, nest: _Nest) -> Iterator[str]:
    name = type(expression).__name__
    if name == "TensorLoad":
        yield from _access(expression.source, expression.indices, nest)
    elif name == "Call" and _called(expression) == "if_then_else":
        condition, then, other = expression.args
        yield from _accesses(then, nest.where(condition))
        yield from _accesses(other, nest.where(condition, holds=False))
    elif name == "Select":
        yield from _accesses(expression.true_value, nest.where(expression.condition))
        yield from _accesses(expression.false_value, nest.where(expression.condition, holds=False))
    else:
        for part in (*(getattr(expression, key, None) for key in ("a", "b")), *getattr(expression, "args", ())):
            if part is not None:
                yield from _accesses(part, nest)
        if name == "Cast":
            yield from _accesses(expression.value, nest)


def _access(buffer: Any, indices: Any, nest: _Nest) -> Iterator[str]:
    try:
        places = np.asarray(nest.value(indices[0]))
    except _Unknown:  # an index that is read, as in a gather
        for index in indices:
            yield from _accesses(index, nest)
        return
    extent = int(buffer.shape[0].value) if len(buffer.shape) == 1 else None
    if extent is not None and (nest.reached & ((places < 0) | (places >= extent))).any():
        yield str(buffer.name)


def _called(call: Any) -> str:
    return str(getattr(call.op, "name", "")).rpartition(".")[2]
