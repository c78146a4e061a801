"""Describe the elements that differ: the worst ones, and how the wrong elements are distributed in the tensor."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from driftline.core.evidence import Element, Number, Region
from driftline.core.tensors import Array

KEPT = 5  # wrong elements kept in the evidence, the worst first
FEW = 4  # shortest axis on which slices or tails count as a pattern


def elements(
    expected: Array, got: Array, places: Iterable[tuple[int, ...]], native: Array | None = None,
    noise: Array | None = None,
) -> tuple[Element, ...]:  # fmt: skip
    """Return an `Element` (index, expected and actual value) for each index in `places`."""
    return tuple(
        Element(
            place,
            plain(expected[place]),
            plain(got[place]),
            None if native is None else plain(native[place]),
            0.0 if noise is None else float(noise[place]),
        )
        for place in places
    )


def plain(value: Number | np.generic) -> Number:
    """Convert a numpy scalar to a Python bool, int or float."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    return float(value)  # type: ignore[arg-type]


def places(order: Array, wrong: Array) -> list[tuple[int, ...]]:
    """Return the indices of up to `KEPT` wrong elements, those with the highest `order` first."""
    flat = np.flatnonzero(wrong)
    if flat.size > KEPT:
        weight = np.nan_to_num(order.reshape(-1)[flat], nan=np.inf)
        flat = flat[np.argsort(-weight, kind="stable")[:KEPT]]
    shape = wrong.shape
    return [tuple(int(i) for i in np.unravel_index(int(at), shape)) for at in flat]


def regions_of(wrong: Array) -> tuple[Region, ...]:
    """Classify where the wrong elements lie: everywhere, in whole slices, at the start or end of an axis, or
    scattered."""
    if not wrong.any():
        return ()
    if wrong.all():
        return (Region.ALL,)
    found: list[Region] = []
    for axis, length in enumerate(wrong.shape):
        if length < FEW:
            continue
        others = tuple(a for a in range(wrong.ndim) if a != axis)
        any_wrong = wrong.any(axis=others) if others else wrong
        if wrong.ndim > 1 and bool((any_wrong == wrong.all(axis=others)).all()) and not any_wrong.all():
            found.append(Region.SLICES)
        touched = np.flatnonzero(any_wrong)
        if touched.size < length and touched.size == length - touched[0]:
            found.append(Region.TAIL)
        elif touched.size < length and touched[-1] == touched.size - 1:
            found.append(Region.HEAD)
    return tuple(dict.fromkeys(found)) or (Region.SCATTERED,)
