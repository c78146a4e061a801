"""Plainer programs of the same nodes: smaller shapes, plainer dtypes, fewer attributes, rounder numbers.

Each function yields candidates, the boldest first. Whether a candidate is a program at all is found out by running its
reference; nothing here has to be right about any operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.diagnose.reduce.attributes import bare, dtype_replaced, fewer, number_replaced, refers
from driftline.diagnose.reduce.graph import Graph, Leaf, Node, without_dead_code
from driftline.diagnose.reduce.order import dtype_rank
from driftline.diagnose.reduce.values import Values, oddness, roughness

ELEMENTWISE = 24  # larger arrays are not looked at element by element
_PLAINER = {
    "float64": ("float32",), "float16": ("float32",), "bfloat16": ("float32",), "int64": ("int32",),
    "int16": ("int32",), "int8": ("int32",), "uint8": ("int32",), "uint16": ("int32",), "uint32": ("int32",),
    "uint64": ("int64", "int32"), "complex128": ("complex64", "float32"), "complex64": ("float32",),
}  # fmt: skip


class Plainer:
    """The steps. Numbers are read from and written to `values`."""

    def __init__(self, values: Values, *, numbers_matter: bool) -> None:
        self._values = values
        self._numbers_matter = numbers_matter

    def steps(self) -> Iterator[tuple[str, Callable[[Graph], Iterator[Graph]]]]:
        """What often works first: what does not is asked about again whenever something else has changed."""
        if not self._numbers_matter:
            yield "plain inputs", self.plainest
        yield "a smaller shape", self.shapes
        yield "fewer attributes", self.attributes
        yield "a plain layout", self.layouts
        yield "rounder numbers", self.numbers
        yield "a plainer dtype", self.dtypes

    def plainest(self, graph: Graph) -> Iterator[Graph]:
        """Zeros everywhere, of sizes as small as possible."""
        for small in (*self._single_elements(graph), graph):
            yield replace(small, leaves=tuple(self._changed(leaf, np.zeros_like) for leaf in small.leaves))

    # -- shapes ------------------------------------------------------------------------------------------------------

    def shapes(self, graph: Graph) -> Iterator[Graph]:
        """All sizes at once; then one smaller everywhere, or along one axis of one input, or an axis taken away."""
        yield from self._single_elements(graph)
        yield from self._at_most(graph, 2)
        yield from self._flatter(graph)
        sizes = sorted({size for leaf in graph.leaves for size in leaf.type.shape if size > 1}, reverse=True)
        for size in sizes:
            for smaller in smaller_sizes(size):
                yield self._resized(graph, size, smaller, everywhere=True)
                yield self._resized(graph, size, smaller, everywhere=False)
                if smaller == 1 or smaller == size // 2:
                    yield self._resized(graph, size, smaller, everywhere=True, last=True)
        for at, leaf in enumerate(graph.leaves):
            for axis, size in enumerate(leaf.type.shape):
                for smaller in smaller_sizes(size):
                    yield self._with_leaf(graph, at, partial(taken, axis=axis, size=smaller))
        yield from self._squeezed(graph)

    def _single_elements(self, graph: Graph) -> Iterator[Graph]:
        """One element of every input, the oddest: as a scalar, and with as many axes as there were."""
        odd = self._oddest(graph)

        def alone(leaf: Leaf, *, axes: bool) -> Leaf:
            if _names_axes(leaf) or not prod(leaf.type.shape):
                return leaf
            at = odd[leaf.type.shape]
            return self._changed(leaf, lambda a: a.reshape(-1)[at].reshape((1,) * a.ndim if axes else ()))

        yield replace(graph, leaves=tuple(alone(leaf, axes=False) for leaf in graph.leaves))
        small = replace(graph, leaves=tuple(alone(leaf, axes=True) for leaf in graph.leaves))
        yield self._told(small, {size for leaf in graph.leaves for size in leaf.type.shape}, 1)
        yield small

    def _oddest(self, graph: Graph) -> dict[tuple[int, ...], int]:
        """By shape, since what belongs together stands at the same place: where the oddest element is."""
        total: dict[tuple[int, ...], Array] = {}
        for leaf in graph.leaves:
            for array in self._values.load(leaf.data):
                if array.size and array.shape == leaf.type.shape:
                    total[array.shape] = np.maximum(total.get(array.shape, 0.0), oddness(array))
        return {shape: int(odd.argmax()) for shape, odd in total.items()}

    def _at_most(self, graph: Graph, most: int) -> Iterator[Graph]:
        sizes = {size for leaf in graph.leaves for size in leaf.type.shape if size > most}
        for everywhere in (True, False):
            small = graph
            for size in sizes:
                small = self._resized(small, size, most, everywhere=everywhere)
            yield small

    def _flatter(self, graph: Graph) -> Iterator[Graph]:
        """One axis less: of all inputs that have the most, their first part."""
        ranks = [0 if _names_axes(leaf) else len(leaf.type.shape) for leaf in graph.leaves]
        if any(ranks):
            leaves = [
                self._changed(leaf, lambda a: a[0] if len(a) else a) if rank == max(ranks) else leaf
                for leaf, rank in zip(graph.leaves, ranks, strict=True)
            ]
            yield replace(graph, leaves=tuple(leaves))

    def _resized(self, graph: Graph, old: int, new: int, *, everywhere: bool, last: bool = False) -> Graph:
        """Every size `old` of an input becomes `new`; `everywhere`, in the attributes too. The first elements stay, or
        the `last`."""
        leaves = []
        for leaf in graph.leaves:
            for axis, size in enumerate(leaf.type.shape):
                if size == old:
                    leaf = self._changed(leaf, partial(taken, axis=axis, size=new, last=last))
            leaves.append(leaf)
        resized = replace(graph, leaves=tuple(leaves))
        return self._told(resized, {old}, new) if everywhere else resized

    def _told(self, graph: Graph, sizes: Collection[int], new: int) -> Graph:
        """With another number wherever one of the sizes is named: in attributes and in constants that may be shapes."""
        leaves, nodes = graph.leaves, graph.nodes
        for old in sizes:
            leaves = tuple(self._renumbered(leaf, old, new) for leaf in leaves)
            nodes = tuple(replace(v, attributes=number_replaced(v.attributes, old, new)) for v in nodes)
        return replace(graph, leaves=leaves, nodes=nodes)

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
                nodes = [replace(node, attributes=dtype_replaced(node.attributes, old, new)) for node in graph.nodes]
                yield replace(graph, leaves=tuple(leaves), nodes=tuple(nodes))

    # -- attributes --------------------------------------------------------------------------------------------------

    def attributes(self, graph: Graph) -> Iterator[Graph]:
        """All attributes left out; then one, or an optional input, or a number in it made smaller."""
        yield replace(graph, nodes=tuple(replace(v, attributes=bare(dict(v.attributes))) for v in graph.nodes))
        for at, node in enumerate(graph.nodes):
            for attributes in fewer(node.attributes):
                yield _with_node(graph, at, replace(node, attributes=attributes))
            for place, number in reversed(list(enumerate(node.inputs))):
                if place and number is not None and not refers(node.attributes):  # else the attributes name it
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
        for change in ROUNDER:
            for at in sorted(range(len(graph.leaves)), key=lambda at: graph.leaves[at].roughness):
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
    """The boldest first; towards the end in ever smaller steps, so that a threshold is found by few of them."""
    steps = (size - (size >> shift) for shift in range(1, size.bit_length()))
    return [s for s in dict.fromkeys((1, size // 2, 2, 3, 4, 8, 16, 32, *steps)) if 0 < s < size]


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
