"""Plainer programs of the same nodes: smaller shapes, plainer dtypes, fewer attributes, rounder numbers.

Each function yields candidates, the boldest first. Whether a candidate is a program at all is found out by running its
reference; nothing here has to be right about any operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.diagnose.reduce.graph import Graph, Leaf, Node, without_dead_code
from driftline.diagnose.reduce.order import dtype_rank
from driftline.diagnose.reduce.values import Values, roughness

ELEMENTWISE = 24  # larger arrays are not looked at element by element
_PLAINER = {
    "float64": ("float32",), "float16": ("float32",), "bfloat16": ("float32",), "int64": ("int32",),
    "int16": ("int32",), "int8": ("int32",), "uint8": ("int32",), "uint16": ("int32",), "uint32": ("int32",),
    "uint64": ("int64", "int32"), "complex128": ("complex64", "float32"), "complex64": ("float32",),
}  # fmt: skip


class Plainer:
    """The steps. Numbers are read from and written to `values`."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def steps(self) -> tuple[tuple[str, Callable[[Graph], Iterator[Graph]]], ...]:
        return (
            ("a smaller shape", self.shapes),
            ("a plainer dtype", self.dtypes),
            ("fewer attributes", self.attributes),
            ("a plain layout", self.layouts),
            ("rounder numbers", self.numbers),
        )

    # -- shapes ------------------------------------------------------------------------------------------------------

    def shapes(self, graph: Graph) -> Iterator[Graph]:
        """One size made smaller everywhere, or along one axis of one input, or an axis taken away."""
        sizes = sorted({size for leaf in graph.leaves for size in leaf.type.shape if size > 1}, reverse=True)
        for size in sizes:
            for smaller in smaller_sizes(size):
                yield self._resized(graph, size, smaller, everywhere=True)
                yield self._resized(graph, size, smaller, everywhere=False)
            yield self._resized(graph, size, 1, everywhere=True, last=True)
        for at, leaf in enumerate(graph.leaves):
            for axis, size in enumerate(leaf.type.shape):
                for smaller in smaller_sizes(size):
                    yield self._with_leaf(graph, at, partial(taken, axis=axis, size=smaller))
        yield from self._squeezed(graph)

    def _resized(self, graph: Graph, old: int, new: int, *, everywhere: bool, last: bool = False) -> Graph:
        """Every size `old` of an input becomes `new`; `everywhere`, in the attributes too. The first elements stay, or
        the `last`."""
        leaves = []
        for leaf in graph.leaves:
            changed = leaf
            for axis, size in enumerate(leaf.type.shape):
                if size == old:
                    changed = self._changed(changed, partial(taken, axis=axis, size=new, last=last))
            leaves.append(self._renumbered(changed, old, new) if everywhere else changed)
        nodes = [replace(node, attributes=_number_replaced(node.attributes, old, new)) for node in graph.nodes]
        return replace(graph, leaves=tuple(leaves), nodes=tuple(nodes) if everywhere else graph.nodes)

    def _renumbered(self, leaf: Leaf, old: int, new: int) -> Leaf:
        """Constants of integers are often shapes: the sizes in them follow."""
        if not leaf.constant or leaf.type.dtype != "int64" or prod(leaf.type.shape) > 8:
            return leaf
        return self._changed(leaf, lambda a: np.where(a == old, np.array(new, a.dtype), a))

    def _squeezed(self, graph: Graph) -> Iterator[Graph]:
        """Without a first axis of size 1: of all inputs that have one, then of one after the other."""
        long = [at for at, leaf in enumerate(graph.leaves) if leaf.type.shape[:1] == (1,) and not _names_axes(leaf)]
        for chosen in (long, *([at] for at in long)) if long else ():
            leaves = [self._changed(v, lambda a: a[0]) if at in chosen else v for at, v in enumerate(graph.leaves)]
            yield replace(graph, leaves=tuple(leaves))

    # -- dtypes ------------------------------------------------------------------------------------------------------

    def dtypes(self, graph: Graph) -> Iterator[Graph]:
        """One dtype replaced by a plainer one, everywhere it is named."""
        present = sorted({leaf.type.dtype for leaf in graph.leaves}, key=dtype_rank, reverse=True)
        for old in present:
            for new in _PLAINER.get(old, ()):
                leaves = [
                    self._changed(leaf, partial(_cast, dtype=new)) if leaf.type.dtype == old else leaf
                    for leaf in graph.leaves
                ]
                nodes = [replace(node, attributes=_dtype_replaced(node.attributes, old, new)) for node in graph.nodes]
                yield replace(graph, leaves=tuple(leaves), nodes=tuple(nodes))

    # -- attributes --------------------------------------------------------------------------------------------------

    def attributes(self, graph: Graph) -> Iterator[Graph]:
        """An attribute or an optional input left out, or a number in it made smaller."""
        for at, node in enumerate(graph.nodes):
            for attributes in _fewer(node.attributes):
                yield _with_node(graph, at, replace(node, attributes=attributes))
            for place, number in reversed(list(enumerate(node.inputs))):
                if place and number is not None:
                    inputs = list(node.inputs)
                    inputs[place] = None
                    yield _with_node(graph, at, replace(node, inputs=tuple(inputs)))

    # -- layouts and numbers -----------------------------------------------------------------------------------------

    def layouts(self, graph: Graph) -> Iterator[Graph]:
        for at, leaf in enumerate(graph.leaves):
            if leaf.type.strides:
                plain = replace(leaf, type=replace(leaf.type, strides=()))
                yield replace(graph, leaves=(*graph.leaves[:at], plain, *graph.leaves[at + 1 :]))

    def numbers(self, graph: Graph) -> Iterator[Graph]:
        """Rounder numbers: whole arrays first, then parts of small ones."""
        for at, leaf in enumerate(graph.leaves):
            if leaf.roughness:
                for change in ROUNDER:
                    yield self._with_leaf(graph, at, change)
        for at, leaf in enumerate(graph.leaves):
            count = prod(leaf.type.shape)
            if not leaf.roughness or not 1 < count <= ELEMENTWISE:
                continue
            width = count
            while width > 1:
                width = -(-width // 2)
                for start in range(0, count, width):
                    for value in (0, 1):
                        fill = partial(_filled, start=start, stop=start + width, value=value)
                        yield self._with_leaf(graph, at, fill)

    # -- leaves ------------------------------------------------------------------------------------------------------

    def _with_leaf(self, graph: Graph, at: int, change: Callable[[Array], Array]) -> Graph:
        return replace(
            graph, leaves=(*graph.leaves[:at], self._changed(graph.leaves[at], change), *graph.leaves[at + 1 :])
        )

    def _changed(self, leaf: Leaf, change: Callable[[Array], Array]) -> Leaf:
        with np.errstate(all="ignore"):
            arrays = [np.asarray(change(array), order="C") for array in self._values.load(leaf.data)]
        shape = tuple(arrays[0].shape)
        strides = leaf.type.strides if shape == leaf.type.shape else _scaled(leaf.type.strides, leaf.type.shape, shape)
        kind = replace(leaf.type, dtype=arrays[0].dtype.name, shape=shape, strides=strides)
        return replace(leaf, type=kind, data=self._values.save(arrays), roughness=roughness(arrays))


def _names_axes(leaf: Leaf) -> bool:
    """A short list of integers is often one of axes or sizes, which a number cannot stand for."""
    return leaf.type.dtype == "int64" and len(leaf.type.shape) == 1


def smaller_sizes(size: int) -> list[int]:
    """The boldest first."""
    return [s for s in dict.fromkeys((1, 2, 3, 4, 8, 16, 32, size // 2, size - 1)) if 0 < s < size]


def taken(array: Array, axis: int, size: int, last: bool = False) -> Array:
    """The first or last elements along an axis; where samples have other sizes, as many as there are."""
    whole = array.shape[axis]
    return array.take(range(max(0, whole - size), whole) if last else range(min(size, whole)), axis=axis)


def _scaled(strides: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    """A layout of the same order for another shape; a plain one where there is no such thing."""
    if not strides or len(old) != len(new):
        return ()
    packed, step = [0] * len(new), 1
    for axis in sorted(range(len(new)), key=lambda axis: strides[axis]):
        packed[axis] = 0 if strides[axis] == 0 else step
        step *= 1 if strides[axis] == 0 else new[axis]
    return tuple(packed)


def _cast(array: Array, dtype: str) -> Array:
    if array.dtype.kind == "c" and not dtype.startswith("complex"):
        array = array.real
    return array.astype(numpy_dtype(dtype))


def _filled(array: Array, start: int, stop: int, value: int) -> Array:
    changed = array.copy()
    changed.reshape(-1)[start:stop] = value
    return changed


def _rounded(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return np.clip(array, 0, 3).astype(array.dtype)
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return np.round(wide).astype(array.dtype)


def _one_digit(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return np.round(wide, 1).astype(array.dtype)


ROUNDER: tuple[Callable[[Array], Array], ...] = (
    np.zeros_like,
    np.ones_like,
    lambda array: (np.arange(array.size) % 4).reshape(array.shape).astype(array.dtype),
    lambda array: np.broadcast_to(array.reshape(-1)[:1], (array.size,)).reshape(array.shape) if array.size else array,
    _rounded,
    _one_digit,
)


def _with_node(graph: Graph, at: int, node: Node) -> Graph:
    nodes = (*graph.nodes[:at], node, *graph.nodes[at + 1 :])
    return without_dead_code(graph.leaves, nodes, graph.outputs, graph.header)


def _number_replaced(value: Any, old: int, new: int) -> Any:
    if isinstance(value, dict):
        return {k: v if k[0] == "$" or k in _DTYPE_KEYS else _number_replaced(v, old, new) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_number_replaced(item, old, new) for item in value]
    return new if type(value) is int and value == old else value


# How attributes name dtypes: torch's by a word, ONNX's by a number under one of these keys.
_DTYPE_KEYS = ("to", "dtype")
_ONNX_CODES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
}  # fmt: skip


def _dtype_replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return [_dtype_replaced(item, old, new) for item in value]
    if not isinstance(value, dict):
        return value
    if value == {"w": old}:
        return {"w": new}
    code = {"i": _ONNX_CODES.get(old)}
    return {
        key: {"i": _ONNX_CODES[new]} if key in _DTYPE_KEYS and item == code else _dtype_replaced(item, old, new)
        for key, item in value.items()
    }


def _fewer(value: Any) -> Iterator[Any]:
    """Attributes with something left out, or with one number made plainer. References to inputs stay."""
    if isinstance(value, dict):
        if "$" in value:
            return
        for key, item in value.items():
            if key.startswith("$") or key in _DTYPE_KEYS:
                continue
            if len(key) > 1 and not _refers(item):  # a single letter only says what the value is
                yield {other: v for other, v in value.items() if other != key}
            for plainer in _fewer(item):
                yield {**value, key: plainer}
    elif isinstance(value, list):
        if value and not _refers(value[-1]):
            yield value[:-1]
        for at, item in enumerate(value):
            for plainer in _fewer(item):
                yield [*value[:at], plainer, *value[at + 1 :]]
    elif isinstance(value, bool):
        if value:
            yield False
    elif isinstance(value, int):
        yield from (n for n in (0, 1, 2, value // 2) if abs(n) < abs(value))
    elif isinstance(value, float):
        yield from (f for f in (0.0, 1.0, float(round(value)), round(value, 1)) if f != value)


def _refers(value: Any) -> bool:
    """Does an attribute hold a reference to an input?"""
    if isinstance(value, dict):
        return "$" in value or any(_refers(item) for item in value.values())
    return isinstance(value, (list, tuple)) and any(_refers(item) for item in value)
