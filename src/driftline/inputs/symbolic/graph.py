"""The scalar graph: one node for each distinct scalar operation, with the format that it rounds to.

Nodes are *hash-consed*: the same operation on the same operands is the same object, so that `x - x` is recognised and
repeated work is done once. A node and its operands have the same format; `cast` converts between formats. A sum of
float16 numbers accumulated in float32 consists of casts, float32 additions and a final cast, because the accumulator's
format is part of the meaning.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from driftline.inputs.symbolic.formats import Format

_interned: weakref.WeakValueDictionary[tuple[Any, ...], ExprNode] = weakref.WeakValueDictionary()


class ExprNode:
    """An operation on scalars. `form` is None for truth values. Create nodes with `make`, never directly."""

    __slots__ = ("__weakref__", "args", "form", "name", "number", "op", "value")
    _count = 0

    def __init__(self, op: str, args: tuple[ExprNode, ...], form: Format | None, value: float, name: str) -> None:
        self.op, self.args, self.form, self.value, self.name = op, args, form, value, name
        ExprNode._count += 1
        self.number = ExprNode._count

    @property
    def format(self) -> Format:
        if self.form is None:
            raise TypeError(f"{self.op} is a truth value, not a number")
        return self.form

    def __repr__(self) -> str:
        if self.op == "variable":
            return self.name
        if self.op == "constant":
            return f"{self.value:g}"
        return f"{self.op}({', '.join(map(repr, self.args))})"

    def __add__(self, other: ExprNode | float) -> ExprNode:
        return binary("add", self, other)

    def __radd__(self, other: ExprNode | float) -> ExprNode:
        return binary("add", self, other, swapped=True)

    def __sub__(self, other: ExprNode | float) -> ExprNode:
        return binary("sub", self, other)

    def __rsub__(self, other: ExprNode | float) -> ExprNode:
        return binary("sub", self, other, swapped=True)

    def __mul__(self, other: ExprNode | float) -> ExprNode:
        return binary("mul", self, other)

    def __rmul__(self, other: ExprNode | float) -> ExprNode:
        return binary("mul", self, other, swapped=True)

    def __truediv__(self, other: ExprNode | float) -> ExprNode:
        return binary("div", self, other)

    def __rtruediv__(self, other: ExprNode | float) -> ExprNode:
        return binary("div", self, other, swapped=True)

    def __neg__(self) -> ExprNode:
        return apply("neg", self)


def make(
    op: str, args: Sequence[ExprNode] = (), form: Format | None = None, value: float = 0.0, name: str = ""
) -> ExprNode:
    """Return the unique node with this description, and create it if needed."""
    key = (op, tuple(arg.number for arg in args), form and form.name, struct.pack("<d", value), name)
    found = _interned.get(key)
    if found is None:
        found = _interned[key] = ExprNode(op, tuple(args), form, value, name)
    return found


def variable(name: str, form: Format) -> ExprNode:
    return make("variable", form=form, name=name)


def constant(value: float, form: Format) -> ExprNode:
    """Return a constant node with the value rounded to the format."""
    return make("constant", form=form, value=float(form.round(np.asarray(value, np.float64))))


def binary(op: str, left: ExprNode, right: ExprNode | float, *, swapped: bool = False) -> ExprNode:
    """Apply an operator to a node and a node or number. A number takes the node's format."""
    other = right if isinstance(right, ExprNode) else constant(float(right), left.format)
    return apply(op, other, left) if swapped else apply(op, left, other)


COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
LOGIC = frozenset({"and", "or", "not"})


def apply(op: str, *args: ExprNode) -> ExprNode:
    """Apply an operation to nodes of one format. If all operands are constants, the result is computed at once."""
    if op in COMPARISONS or op in LOGIC:
        return make(op, args)
    form = args[-1].format
    floats = args[1:] if op == "where" else args
    if any(arg.form is not form for arg in floats):
        raise TypeError(f"{op} of {', '.join(str(arg.form and arg.form.name) for arg in floats)}: cast them first")
    if all(arg.op == "constant" for arg in args):
        from driftline.inputs.symbolic.operators import compute

        return constant(float(compute(op, form, [np.asarray(arg.value, form.carrier) for arg in args])), form)
    return make(op, args, form)


def cast(node: ExprNode, form: Format) -> ExprNode:
    if node.form is form:
        return node
    return constant(node.value, form) if node.op == "constant" else make("cast", (node,), form)


def where(condition: ExprNode, left: ExprNode, right: ExprNode) -> ExprNode:
    return apply("where", condition, left, right)


def in_order(roots: Iterable[ExprNode]) -> list[ExprNode]:
    """Return every node below the roots, operands before the nodes that use them."""
    seen: set[int] = set()
    order: list[ExprNode] = []
    stack: list[tuple[ExprNode, bool]] = [(root, False) for root in reversed(list(roots))]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node.number not in seen:
            seen.add(node.number)
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(node.args) if arg.number not in seen)
    return order


def variables_of(roots: Iterable[ExprNode]) -> list[ExprNode]:
    return [node for node in in_order(roots) if node.op == "variable"]
