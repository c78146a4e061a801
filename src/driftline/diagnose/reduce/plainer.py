"""Make programs of the same nodes simpler: smaller shapes, simpler dtypes, fewer attributes, rounder numbers.

Each function yields candidates, the boldest first. A candidate may be invalid, which running its reference shows;
nothing here depends on the meaning of operators.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.diagnose.reduce.attributes import bare, dtype_replaced, fewer, number_replaced, refers
from driftline.diagnose.reduce.elements import ElementForm, few_elements, oddest_elements
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf, ProgramNode, without_dead_code
from driftline.diagnose.reduce.leaves import ArrayChange, changed, names_axes, with_leaf
from driftline.diagnose.reduce.meaning import not_zero
from driftline.diagnose.reduce.order import dtype_rank
from driftline.diagnose.reduce.rounder import all_rounder, rounder
from driftline.diagnose.reduce.values import Values

_PLAINER_DTYPES = {
    "float64": ("float32",), "float16": ("float32",), "bfloat16": ("float32",), "int64": ("int32",),
    "int16": ("int32",), "int8": ("int32",), "uint8": ("int32",), "uint16": ("int32",), "uint32": ("int32",),
    "uint64": ("int64", "int32"), "complex128": ("complex64", "float32"), "complex64": ("float32",),
}  # fmt: skip


class Plainer:
    """Provides the simplifying steps. Numbers are read from and written to `values`; one question takes up to `most`
    inputs of a program.
    """

    def __init__(self, values: Values, *, numbers_matter: bool, most: int = 1) -> None:
        self._values = values
        self._numbers_matter = numbers_matter
        self._most = most

    def steps(
        self, passes: Callable[[ProgramGraph], bool]
    ) -> Iterator[tuple[str, Callable[[ProgramGraph], Iterable[ProgramGraph]]]]:
        """Yield the steps by name, those first that often work or take few questions: a failing step is tried again
        whenever something else has changed. Rounder numbers take few questions if one question takes several inputs.

        Where a scalar `passes`, a size of 1 most likely passes too, and two elements are the next guess.
        """
        at_once = self._most > 1

        def few(form: ElementForm, graph: ProgramGraph) -> list[ProgramGraph]:
            """Return the program on its most unusual elements, and on others if it is not known that these pass."""
            oddest = oddest_elements(self._values, graph, form)
            return [oddest] if passes(oddest) else few_elements(self._values, graph, form, self._most)

        def scalar_passes(graph: ProgramGraph) -> bool:
            return passes(oddest_elements(self._values, graph, ElementForm.SCALAR))

        def scalars(graph: ProgramGraph) -> Iterator[ProgramGraph]:
            yield from few(ElementForm.SCALAR, _bare(graph)) if at_once else ()
            yield from few(ElementForm.SCALAR, graph)

        def ones(graph: ProgramGraph) -> Iterator[ProgramGraph]:
            small = few(ElementForm.ONES, graph)
            yield from self._all_told(graph, small)
            yield from small

        if not self._numbers_matter:
            yield "plain inputs", self.plainest
        yield "a single element", scalars
        yield "a single element", lambda graph: () if scalar_passes(graph) else ones(graph)
        yield "two elements", lambda graph: few(ElementForm.PAIR, graph) if at_once and scalar_passes(graph) else ()
        yield "a smaller shape", lambda graph: itertools.chain(scalars(graph), self.bold_shapes(graph))
        yield "a single element", ones
        yield "a smaller shape", self.shapes
        yield "a plain layout", self.layouts
        if at_once:
            yield "rounder numbers", self.numbers
        yield "fewer attributes", self.attributes
        if not at_once:
            yield "rounder numbers", self.numbers
        yield "a plainer dtype", self.dtypes

    def plainest(self, graph: ProgramGraph) -> Iterator[ProgramGraph]:
        """Yield programs with all inputs zero, or one where zero makes no sense, with sizes as small as possible
        first.
        """
        ones_at = not_zero(graph)
        scalar, ones = (oddest_elements(self._values, graph, form) for form in (ElementForm.SCALAR, ElementForm.ONES))
        for small in (scalar, *self._all_told(graph, [ones]), ones, graph):
            plain = (self._changed(v, np.ones_like if v.number in ones_at else np.zeros_like) for v in small.leaves)
            yield replace(small, leaves=tuple(plain))

    # -- shapes ------------------------------------------------------------------------------------------------------

    def bold_shapes(self, graph: ProgramGraph) -> Iterator[ProgramGraph]:
        """Yield programs with all sizes reduced at once, or with an axis less."""
        yield from self._at_most(graph, 2)
        yield from self._flatter(graph)

    def shapes(self, graph: ProgramGraph) -> Iterator[ProgramGraph]:
        """Yield programs with one size reduced everywhere, or along one axis of one input, or with an axis removed."""
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
                    yield with_leaf(self._values, graph, at, partial(taken, axis=axis, size=smaller))
        yield from self._squeezed(graph)

    def _at_most(self, graph: ProgramGraph, most: int) -> Iterator[ProgramGraph]:
        sizes = {size for leaf in graph.leaves for size in leaf.type.shape if size > most}
        for everywhere in (True, False):
            small = graph
            for size in sizes:
                small = self._resized(small, size, most, everywhere=everywhere)
            yield small

    def _flatter(self, graph: ProgramGraph) -> Iterator[ProgramGraph]:
        """Yield the program with the first axis removed from all inputs that have the most axes."""
        ranks = [0 if names_axes(leaf) else len(leaf.type.shape) for leaf in graph.leaves]
        if any(ranks):
            leaves = [
                self._changed(leaf, lambda a: a[0] if len(a) else a) if rank == max(ranks) else leaf
                for leaf, rank in zip(graph.leaves, ranks, strict=True)
            ]
            yield replace(graph, leaves=tuple(leaves))

    def _resized(
        self, graph: ProgramGraph, old: int, new: int, *, everywhere: bool, last: bool = False
    ) -> ProgramGraph:
        """Change every size `old` of the inputs to `new`; with `everywhere`, in attributes too. Keep the first
        elements, or with `last` the last ones.
        """
        leaves = []
        for leaf in graph.leaves:
            for axis, size in enumerate(leaf.type.shape):
                if size == old:
                    leaf = self._changed(leaf, partial(taken, axis=axis, size=new, last=last))
            leaves.append(leaf)
        resized = replace(graph, leaves=tuple(leaves))
        return self._told(resized, {old}, new) if everywhere else resized

    def _all_told(self, graph: ProgramGraph, small: Iterable[ProgramGraph]) -> Iterator[ProgramGraph]:
        """Replace every size of `graph` that attributes or constants of the small programs name by 1."""
        sizes = {size for leaf in graph.leaves for size in leaf.type.shape}
        return (self._told(each, sizes, 1) for each in small)

    def _told(self, graph: ProgramGraph, sizes: Collection[int], new: int) -> ProgramGraph:
        """Replace the sizes by `new` wherever they are named: in attributes and in constants that may be shapes."""
        leaves, nodes = graph.leaves, graph.nodes
        for old in sizes:
            leaves = tuple(self._renumbered(leaf, old, new) for leaf in leaves)
            nodes = tuple(replace(v, attributes=number_replaced(v.attributes, old, new)) for v in nodes)
        return replace(graph, leaves=leaves, nodes=nodes)

    def _renumbered(self, leaf: ProgramLeaf, old: int, new: int) -> ProgramLeaf:
        """Replace a size inside a small constant of integers, which is often a shape."""
        if not leaf.constant or leaf.type.dtype != "int64" or prod(leaf.type.shape) > 8:
            return leaf
        return self._changed(leaf, lambda a: np.where(a == old, np.array(new, a.dtype), a))

    def _squeezed(self, graph: ProgramGraph) -> Iterator[ProgramGraph]:
        """Yield programs without a first axis of size 1: removed from all inputs that have one, then from one after
        another.
        """
        long = [at for at, leaf in enumerate(graph.leaves) if leaf.type.shape[:1] == (1,) and not names_axes(leaf)]
        for chosen in (long, *([at] for at in long)) if long else ():
            leaves = [self._changed(v, lambda a: a[0]) if at in chosen else v for at, v in enumerate(graph.leaves)]
            yield replace(graph, leaves=tuple(leaves))

    # -- dtypes ------------------------------------------------------------------------------------------------------

    def dtypes(self, graph: ProgramGraph) -> Iterator[ProgramGraph]:
        """Yield programs with one dtype replaced by a simpler one, everywhere it is named."""
        present = sorted({leaf.type.dtype for leaf in graph.leaves}, key=dtype_rank, reverse=True)
        for old in present:
            for new in _PLAINER_DTYPES.get(old, ()):
                leaves = [
                    self._changed(leaf, partial(_cast, dtype=new)) if leaf.type.dtype == old else leaf
                    for leaf in graph.leaves
                ]
                nodes = [replace(node, attributes=dtype_replaced(node.attributes, old, new)) for node in graph.nodes]
                yield replace(graph, leaves=tuple(leaves), nodes=tuple(nodes))

    # -- attributes --------------------------------------------------------------------------------------------------

    def attributes(self, graph: ProgramGraph) -> Iterator[ProgramGraph]:
        """Yield programs without optional attributes; then with one attribute or optional input less, or with a smaller
        number.
        """
        yield _bare(graph)
        for at, node in enumerate(graph.nodes):
            for attributes in fewer(node.attributes):
                yield _with_node(graph, at, replace(node, attributes=attributes))
            for place, number in reversed(list(enumerate(node.inputs))):
                if place and number is not None and not refers(node.attributes):  # else the attributes name it
                    inputs = list(node.inputs)
                    inputs[place] = None
                    yield _with_node(graph, at, replace(node, inputs=tuple(inputs)))

    # -- layouts and numbers -----------------------------------------------------------------------------------------

    def layouts(self, graph: ProgramGraph) -> Iterator[ProgramGraph]:
        for at, leaf in enumerate(graph.leaves):
            if leaf.type.strides:
                plain = replace(leaf, type=replace(leaf.type, strides=()))
                yield replace(graph, leaves=(*graph.leaves[:at], plain, *graph.leaves[at + 1 :]))

    def numbers(self, graph: ProgramGraph) -> Iterator[ProgramGraph]:
        """Yield programs with rounder numbers: in all inputs at once if that is one question, then in each leaf."""
        if self._most > 1:
            yield from all_rounder(self._values, graph)
        yield from rounder(self._values, graph)

    def _changed(self, leaf: ProgramLeaf, change: ArrayChange) -> ProgramLeaf:
        return changed(self._values, leaf, change)


def smaller_sizes(size: int) -> list[int]:
    """Return smaller sizes to try, the boldest first, with ever smaller steps towards `size`, so that a threshold is
    found quickly.
    """
    steps = (size - (size >> shift) for shift in range(1, size.bit_length()))
    return [s for s in dict.fromkeys((1, size // 2, 2, 3, 4, 8, 16, 32, *steps)) if 0 < s < size]


def taken(array: Array, axis: int, size: int, last: bool = False) -> Array:
    """Return the first or last `size` elements along an axis, or all if there are fewer."""
    whole = array.shape[axis]
    return array.take(range(max(0, whole - size), whole) if last else range(min(size, whole)), axis=axis)


def _cast(array: Array, dtype: str) -> Array:
    if array.dtype.kind == "c" and not dtype.startswith("complex"):
        array = array.real
    return array.astype(numpy_dtype(dtype))


def _bare(graph: ProgramGraph) -> ProgramGraph:
    """Return the program without the attributes that can be left out."""
    return replace(graph, nodes=tuple(replace(v, attributes=bare(dict(v.attributes))) for v in graph.nodes))


def _with_node(graph: ProgramGraph, at: int, node: ProgramNode) -> ProgramGraph:
    nodes = (*graph.nodes[:at], node, *graph.nodes[at + 1 :])
    return without_dead_code(graph.leaves, nodes, graph.outputs, graph.header)
