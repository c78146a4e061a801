"""Finds what else is right beside the expected results of a bug, so that its script fails no right compiler.

A specification may leave a result open (whether NaN wins a maximum), and rounding may decide a step or a choice. The
shadow knows which elements that concerns and which results they may have.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftline.core.evidence import Evidence, Number
from driftline.core.tensors import Array, is_float
from driftline.core.verdict import Kind
from driftline.oracle.differing import plain
from driftline.oracle.judge import NoShadow, ReferenceSample
from driftline.oracle.outputs import ShadowAnswer
from driftline.oracle.rule import FULL_RUNS
from driftline.oracle.shadow.decisions import OTHER_PLACES
from driftline.report.scripts.failure import Leeway

STEP = 1e-3  # of an element's size: what moves a float further is a decision, not rounding
MOST = 8  # results that one element may have


def leeway_of(sample: ReferenceSample, kind: str, found: Evidence, arithmetic: str) -> Leeway | None:
    """Return what is right at the wrong elements if the wrong output has elements with several right results, or None.
    `arithmetic`: the policies that the target declares."""
    native = sample.native.get(found.output)
    if kind not in (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE) or sample.shadow is None or sample.exact is None:
        return None
    if native is None or native.dtype.kind == "c" or not found.worst:
        return None
    try:
        answer = sample.shadow(arithmetic, FULL_RUNS, None)
    except NoShadow:
        return None
    name = found.output
    if answer.reference[name].shape != native.shape:
        return None
    nowhere = np.zeros(native.shape, dtype=bool)
    by_rounding, left_open = _decided_by_rounding(name, native, answer), answer.open.get(name, nowhere)
    if not (by_rounding | left_open).any():
        return None
    if found.invalid_choice == OTHER_PLACES and by_rounding.any():  # a choice among choices: no numbers to compare
        return Leeway({})
    anything = left_open & ~answer.bound.get(name, nowhere)
    if name in answer.choosing:  # between two right indices no third is right
        anything |= by_rounding
    told = [element for element in found.worst if not anything[element.place]]
    return Leeway({one.place: _different((one.expected, *_results(one.place, name, native, answer))) for one in told})


def _decided_by_rounding(name: str, native: Array, answer: ShadowAnswer) -> Array:
    low, high = answer.low[name], answer.high[name]
    if not is_float(native.dtype.name):
        return np.asarray(low != high)
    with np.errstate(all="ignore"):
        exact = answer.reference[name].astype(native.dtype)
        steps = high - low > STEP * np.abs(answer.reference[name])
    finite = np.isfinite(np.stack([native.astype(np.float64), exact.astype(np.float64), *answer.samples[name]]))
    return np.asarray(steps | (finite.any(0) & ~finite.all(0)))  # also where it overflows on one side alone


def _results(place: tuple[int, ...], name: str, native: Array, answer: ShadowAnswer) -> Iterator[Number]:
    """Yield the results that an element may have."""
    yield plain(native[place])
    readings = answer.readings.get(name, answer.reference[name][np.newaxis])
    low, high = answer.low[name][place], answer.high[name][place]
    steps = range(int(low), int(high) + 1)[:MOST] if native.dtype.kind in "iu" else (low, high)
    for number in (*(row[place] for row in readings), answer.reference[name][place], *steps):
        with np.errstate(all="ignore"):
            yield plain(np.asarray(number).astype(native.dtype).reshape(-1)[0])


def _different(numbers: tuple[Number, ...]) -> tuple[Number, ...]:
    """Return the numbers without those that occur before; a NaN is like another."""
    return tuple({str(number): number for number in numbers}.values())
