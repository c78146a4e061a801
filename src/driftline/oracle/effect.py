"""The effect of a difference on a user of the model: does the highest score change?

Only outputs that are scores over classes or tokens are compared: floats with two or three dimensions whose last axis,
of length two or more, holds the scores. Outputs with a name such as logits, scores or probabilities are used; if none
has such a name, a single output is used if its rows are probabilities or their logarithms. Other outputs are ignored: a
hidden state has the same shape, but its largest entry is not a class. A row is one vector along the last axis.

Ties that legal rounding may break either way are counted separately, since the compiler did not change the result.
Differences are in units in the last place (ulps) of the largest score of the row, so that a score near zero does not
inflate them.
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
    """In how many rows the highest score changes, over all samples."""

    output: str
    unit: str  # what is chosen: `class` or `token`
    rows: int
    changed: int  # beyond what rounding may do
    ties: int  # changed as well, but legal rounding may break the tie either way
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
    """Return the names of the outputs that hold scores, by the rule in the module docstring."""
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
    """Compare `outputs` with the references in `samples` and return the effect on the first output that holds scores.
    Returns `None` if no output holds scores or no row could be compared."""
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
    """Compare one sample. Returns the number of rows, of changed rows and of ties, and the largest difference in
    ulps."""
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
    """Return the index of the highest score of each row, or -1 for a row with NaN."""
    return np.where(np.isnan(values).any(axis=1), -1, np.where(np.isnan(values), -np.inf, values).argmax(axis=1))


def _picked(values: Array, places: Array) -> Array:
    """Return the element of each row at the index in `places`."""
    return np.take_along_axis(values, np.maximum(places, 0)[:, np.newaxis], axis=1)[:, 0]


def _movement(name: str, sample: ReferenceSample, shape: tuple[int, ...], dtype: str, right: Array) -> Array:
    """Return how far legal rounding moves each score: from the shadow's samples, or one rounding if there is no
    shadow."""
    least = _spacing(right, dtype)[:, np.newaxis] / 2 + np.zeros(right.shape)
    if sample.shadow is not None:
        try:
            answer = sample.shadow("", QUICK_RUNS, None)
        except NoShadow:
            return least / REACH
        if name in answer.samples and answer.samples[name].shape[1:] == shape:
            with np.errstate(invalid="ignore", over="ignore"):  # infinities, which are replaced below
                moved = answer.samples[name] - answer.reference[name]
                rms = np.sqrt(np.mean(np.square(moved), axis=0)).reshape(right.shape)
            return np.where(np.isfinite(rms), np.maximum(rms, least / REACH), np.inf)
    return least / REACH


def _spacing(right: Array, dtype: str) -> Array:
    """Return one unit in the last place of the largest score of each row."""
    import ml_dtypes

    info = ml_dtypes.finfo(dtype)
    largest = np.abs(right).max(axis=1)
    exponent = np.floor(np.log2(np.maximum(largest, float(info.smallest_normal))))
    return np.asarray(np.exp2(exponent) * float(info.eps))
