"""What a difference does to the person who uses the model: does the highest score change?

Looked at are outputs that are scores over classes or tokens: floats of two or three dimensions whose last axis, of two
or more, is the choice. Outputs that are called so (logits, scores, probabilities) count; if none is, a single output
does whose rows are probabilities or their logarithms. Others do not: a hidden state has the same shape, and its largest
entry is no class. A row is everything but the last axis.

A tie that legal rounding may break either way is no change by the compiler: it is counted apart. Differences are in
units in the last place (ulps) of the largest score of the row, so that a score near zero does not blow them up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from driftline.core.tensors import Array, Arrays, is_float
from driftline.oracle.judge import NoShadow, ReferenceSample
from driftline.oracle.rule import QUICK_RUNS
from driftline.oracle.shadow.decisions import REACH

SUM_TO_ONE = 0.02  # how far a row of probabilities in half precision may be off
_SCORES = re.compile(r"logit|score|prob|softmax|class", re.IGNORECASE)


@dataclass(frozen=True)
class Effect:
    """Over all samples together: in how many rows the highest score is another one."""

    output: str
    unit: str  # what is chosen: `class` or `token`
    rows: int
    changed: int  # beyond what rounding may do
    ties: int  # changed as well, but legal rounding may break them either way
    ulps: float  # the largest difference of a score

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        subject = "next token" if self.unit == "token" else "top-1 class"
        rows = "row" if self.rows == 1 else "rows"
        if self.changed:
            told = f"the {subject} changes in {self.changed} of {self.rows} {rows}"
        else:
            told = f"the {subject} stays the same in {'the only row' if self.rows == 1 else f'all {self.rows} rows'}"
        if self.ties and self.changed:
            told += f", and in {self.ties} more where the two best are equal within legal rounding"
        elif self.ties:
            told = f"the {subject} changes in {self.ties} of {self.rows} {rows}, all ties within legal rounding"
        return f"{told}; largest difference {_count(self.ulps)}"


def _count(ulps: float) -> str:
    shown = f"{ulps:.0f}" if ulps < 1e6 else f"{ulps:.2g}"
    return f"{shown} ulp" if shown == "1" else f"{shown} ulps"


def score_outputs(arrays: Arrays) -> list[str]:
    """The outputs that are scores, by the rule above."""
    fitting = [
        name
        for name, array in arrays.items()
        if is_float(array.dtype.name) and array.ndim in (2, 3) and array.shape[-1] >= 2 and array.size
        and ":" not in name
    ]  # fmt: skip
    named = [name for name in fitting if _SCORES.search(name)]
    return named or (fitting if len(fitting) == 1 and _are_probabilities(arrays[fitting[0]]) else [])


def _are_probabilities(array: Array) -> bool:
    """True if each row adds up to one, as softmax makes them, or is the logarithm of such a row."""
    values = array.astype(np.float64)
    with np.errstate(all="ignore"):
        return any(
            bool((rows >= 0).all() and np.isclose(rows.sum(axis=-1), 1.0, atol=SUM_TO_ONE).all())
            for rows in (values, np.exp(values))
        )


def effect_of(
    outputs: Sequence[Arrays], samples: Sequence[ReferenceSample], *, positional: bool = False
) -> Effect | None:
    """The effect on the first output that has scores; `None` where there is none, or nothing to compare."""
    rows = changed = ties = 0
    worst, name, dimensions = 0.0, "", 2
    for got, sample in zip(outputs, samples, strict=False):
        if sample.failure or not sample.native:
            continue
        if positional and len(got) == len(sample.native):
            got = dict(zip(sample.native, got.values(), strict=True))
        found = [n for n in score_outputs(sample.native) if n in got and got[n].shape == sample.native[n].shape]
        if not found or (name and name not in found):
            continue
        name = name or found[0]
        dimensions = sample.native[name].ndim
        part = _compared(name, got[name], sample)
        rows, changed, ties = rows + part[0], changed + part[1], ties + part[2]
        worst = max(worst, part[3])
    return Effect(name, "token" if dimensions == 3 else "class", rows, changed, ties, worst) if rows else None


def _compared(name: str, given: Array, sample: ReferenceSample) -> tuple[int, int, int, float]:
    """Rows, changed rows, ties, and the largest difference, on one sample."""
    native = sample.native[name]
    exact = sample.exact.get(name) if sample.exact else None
    right = native.astype(np.float64) if exact is None or exact.shape != native.shape else exact.astype(np.float64)
    width = native.shape[-1]
    got, right = given.astype(np.float64).reshape(-1, width), right.reshape(-1, width)
    finite = np.isfinite(right).all(axis=1)  # a row with NaN has no highest score
    with np.errstate(all="ignore"):
        ulps = np.abs(got - right) / _spacing(right, native.dtype.name)[:, np.newaxis]
    best, chosen = right.argmax(axis=1), _argmax(got)
    other = finite & (best != chosen)
    worst = float(np.nanmax(np.where(np.isnan(ulps), np.inf, ulps)[finite], initial=0.0))
    if not other.any():
        return int(finite.sum()), 0, 0, worst
    with np.errstate(invalid="ignore"):  # in rows that are not finite
        margin = _picked(right, best) - _picked(right, chosen)
    moves = _movement(name, sample, native.shape, native.dtype.name, right).reshape(-1, width)
    tied = other & (chosen >= 0) & (margin <= REACH * (_picked(moves, best) + _picked(moves, chosen)))
    return int(finite.sum()), int((other & ~tied).sum()), int(tied.sum()), worst


def _argmax(values: Array) -> Array:
    """The place of the highest score; -1 in a row with NaN, where there is none."""
    return np.where(np.isnan(values).any(axis=1), -1, np.where(np.isnan(values), -np.inf, values).argmax(axis=1))


def _picked(values: Array, places: Array) -> Array:
    return np.take_along_axis(values, np.maximum(places, 0)[:, np.newaxis], axis=1)[:, 0]


def _movement(name: str, sample: ReferenceSample, shape: tuple[int, ...], dtype: str, right: Array) -> Array:
    """How far legal rounding moves each score: by the shadow's samples, or by one rounding where there is no shadow."""
    least = _spacing(right, dtype)[:, np.newaxis] / 2 + np.zeros(right.shape)
    if sample.shadow is not None:
        try:
            answer = sample.shadow("", QUICK_RUNS, None)
        except NoShadow:
            return least / REACH
        if name in answer.samples and answer.samples[name].shape[1:] == shape:
            with np.errstate(invalid="ignore", over="ignore"):  # infinities: what moves without end decides nothing
                moved = answer.samples[name] - answer.reference[name]
                rms = np.sqrt(np.mean(np.square(moved), axis=0)).reshape(right.shape)
            return np.where(np.isfinite(rms), np.maximum(rms, least / REACH), np.inf)
    return least / REACH


def _spacing(right: Array, dtype: str) -> Array:
    """One unit in the last place of the largest score of each row."""
    import ml_dtypes

    info = ml_dtypes.finfo(dtype)
    largest = np.abs(right).max(axis=1)
    exponent = np.floor(np.log2(np.maximum(largest, float(info.smallest_normal))))
    return np.asarray(np.exp2(exponent) * float(info.eps))
