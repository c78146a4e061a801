"""Reduce inputs to one or two elements.

The most unusual element is the likeliest to fail. If one question takes several inputs, other elements and rounder
numbers are tried beside it, so that shape and numbers are found at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto
from math import prod

import numpy as np

from driftline.core.tensors import Array
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf
from driftline.diagnose.reduce.leaves import changed, names_axes
from driftline.diagnose.reduce.rounder import all_rounder
from driftline.diagnose.reduce.values import Values, oddness

ElementPlace = dict[tuple[int, ...], int]  # flat index by shape: matching elements have the same index


class ElementForm(Enum):
    """The shape that an input is reduced to."""

    SCALAR = auto()
    ONES = auto()  # one element, with as many axes as there were
    PAIR = auto()  # two elements along one axis


def oddest_elements(values: Values, graph: ProgramGraph, form: ElementForm) -> ProgramGraph:
    """Return the program on the most unusual elements of its inputs."""
    return _taken(values, graph, _places(values, graph, 2), form)


def few_elements(values: Values, graph: ProgramGraph, form: ElementForm, most: int) -> list[ProgramGraph]:
    """Return at most `most` versions of one program on few elements, including the most unusual ones; the roundest
    first. Empty if the program would not become smaller.
    """
    oddest = oddest_elements(values, graph, form)
    if (oddest.size.elements, oddest.size.axes) >= (graph.size.elements, graph.size.axes):
        return []
    found = {oddest.key: oddest}
    if most > 1:
        places = _places(values, graph, most // 2)
        others = (_taken(values, graph, places[at:], form) for at in range(1, len(places)))
        found |= {small.key: small for small in others if small.program == oddest.program}  # not so if constants differ
    for small in list(found.values()):
        for plainer in all_rounder(values, small) if len(found) < most else ():
            if len(found) < most:
                found.setdefault(plainer.key, plainer)
    return sorted(found.values(), key=lambda small: small.size)


def _taken(values: Values, graph: ProgramGraph, places: Sequence[ElementPlace], form: ElementForm) -> ProgramGraph:
    """Take the elements at the first place, or at the first two. Inputs that may name axes are kept, unless there are
    no others.
    """
    chosen = [places[0], places[min(1, len(places) - 1)]]
    only_axes = all(map(names_axes, graph.leaves))

    def elements(leaf: ProgramLeaf) -> ProgramLeaf:
        count = prod(leaf.type.shape)
        if (names_axes(leaf) and not only_axes) or not count or (form is ElementForm.PAIR and count == 1):
            return leaf
        at = [place[leaf.type.shape] for place in chosen]
        shape: tuple[int, ...] = {
            ElementForm.SCALAR: (),
            ElementForm.ONES: (1,) * len(leaf.type.shape),
            ElementForm.PAIR: (2,),
        }[form]
        at = at[: prod(shape)]
        # Samples may be of other sizes, and empty.
        return changed(values, leaf, lambda a: a.take(at, mode="clip").reshape(shape) if a.size else a)

    return replace(graph, leaves=tuple(map(elements, graph.leaves)))


def _places(values: Values, graph: ProgramGraph, most: int) -> list[ElementPlace]:
    """Return places to try: the most unusual element of each shape; then elements of the largest shape, half of them
    unusual and half spread evenly.
    """
    odd: dict[tuple[int, ...], Array] = {}
    for leaf in graph.leaves:
        for array in values.load(leaf.data):
            if array.size and array.shape == leaf.type.shape:
                odd[array.shape] = np.maximum(odd.get(array.shape, 0.0), oddness(array))
    if not odd:
        return [{}]
    oddest: ElementPlace = {shape: int(of.argmax()) for shape, of in odd.items()}
    largest = max(odd, key=prod)
    order = np.argsort(-odd[largest], axis=None, kind="stable").tolist()
    spread = np.linspace(0, len(order) - 1, most, dtype=int).tolist()
    chosen = list(dict.fromkeys([*order[: -(-most // 2)], *spread]))[:most]
    others = ({**oddest, **_below(at, largest, list(odd))} for at in chosen)
    return [oddest, *(place for place in others if place != oddest)][:most]


def _below(at: int, largest: tuple[int, ...], shapes: Sequence[tuple[int, ...]]) -> ElementPlace:
    """Return the place of an element of the largest shape, with the places of the elements in other shapes that
    broadcast to it.
    """
    index = np.unravel_index(at, largest)
    place: ElementPlace = {}
    for shape in shapes:
        last = largest[len(largest) - len(shape) :]
        if len(shape) <= len(largest) and all(size in (1, whole) for size, whole in zip(shape, last, strict=True)):
            met = index[len(largest) - len(shape) :]
            at_shape = tuple(0 if size == 1 else int(i) for size, i in zip(shape, met, strict=True))
            place[shape] = int(np.ravel_multi_index(at_shape, shape)) if shape else 0
    return place
