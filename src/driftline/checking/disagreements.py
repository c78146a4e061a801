"""Finds where targets disagree with each other and the specification allows both results.

No target is wrong there and no row fails, but users who deploy a model on both targets want to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.checking.checker import CheckOutcome, TargetResult
from driftline.core.execution import Outcome
from driftline.core.tensors import Array, Arrays, is_float
from driftline.core.verdict import Judgement
from driftline.oracle.judge import NoShadow, ReferenceSample
from driftline.oracle.rule import QUICK_RUNS
from driftline.oracle.specification import CLAUSES, ROUNDING_DECIDES

MOST = 3  # disagreements reported for one check, at most one for each set of clauses


@dataclass(frozen=True)
class Disagreement:
    """An element on which targets differ and which the specification leaves open."""

    clauses: tuple[str, ...]
    sample: int
    output: str
    place: tuple[int, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]  # each value, and the targets that return it

    @property
    def by_rounding(self) -> bool:
        """True if only rounding decides the value, and nothing that a specification could settle."""
        return set(self.clauses) == {ROUNDING_DECIDES}

    def to_json(self) -> dict[str, Any]:
        return {
            "clauses": list(self.clauses),
            "by_rounding": self.by_rounding,
            "sample": self.sample,
            "output": self.output,
            "place": list(self.place),
            "values": [{"value": value, "targets": list(targets)} for value, targets in self.values],
            "sentence": str(self),
        }

    def __str__(self) -> str:
        operators = dict.fromkeys(name for clause in self.clauses for name in CLAUSES[clause].operators[:1])
        told = "; ".join(f"{', '.join(targets)} {value}" for value, targets in self.values)
        silent = "; ".join(CLAUSES[clause].sentence for clause in self.clauses)
        where = f"{self.output}{list(self.place)}" if self.place else self.output
        what = f"{', '.join(operators)} ({where})" if operators else where
        return f"{what}: {told}: the specification is silent ({silent})."


def disagreements(outcome: CheckOutcome) -> tuple[Disagreement, ...]:
    """Return the first element of each set of clauses on which two targets differ."""
    rows = [row for row in outcome.results if _is_sound(row)]
    found: dict[tuple[str, ...], Disagreement] = {}
    for row in rows:
        clauses = tuple(row.verdict.evidence.unspecified)
        if clauses and clauses not in found and (one := _of(row, clauses, rows, outcome)):
            found[clauses] = one
    return tuple(found.values())[:MOST]


def _is_sound(row: TargetResult) -> bool:
    """True if a row passes, or differs from the reference only at elements that the specification leaves open."""
    passes = row.verdict.judgement is Judgement.PASS or bool(row.verdict.evidence.unspecified)
    return passes and not row.passing and row.execution.outcome is Outcome.OK


def _of(
    row: TargetResult, clauses: tuple[str, ...], rows: Sequence[TargetResult], outcome: CheckOutcome
) -> Disagreement | None:
    samples = outcome.reference.samples
    for index, (own, sample) in enumerate(zip(row.execution.outputs, samples, strict=False)):
        open_elements = _open_elements(sample)
        for name, native in sample.native.items():
            mine, left_open = _named(own, name, sample.native), open_elements.get(name)
            if mine is None or left_open is None or not mine.shape == native.shape == left_open.shape:
                continue
            if not left_open.any():
                continue
            place = _most_apart(mine, native, left_open)
            values = _values(rows, index, name, sample.native, place)
            if len(values) > 1:
                return Disagreement(clauses, index, name, place, values)
    return None


def _named(outputs: Arrays, name: str, native: Arrays) -> Array | None:
    """Return an output by name, or by position if the compiler uses its own names; None if there is none."""
    if name in outputs:
        return outputs[name]
    place = list(native).index(name)
    return list(outputs.values())[place] if len(outputs) == len(native) else None


def _open_elements(sample: ReferenceSample) -> Arrays:
    """Return masks of the elements that the specification leaves open; the others may differ by rounding."""
    try:
        return sample.shadow("", QUICK_RUNS, None).open if sample.shadow else {}
    except NoShadow:
        return {}


def _most_apart(got: Array, native: Array, chosen: Array) -> tuple[int, ...]:
    """Return the index of the first chosen element that is NaN on one side only, or else of the one that differs
    most."""
    with np.errstate(all="ignore"):
        one, other = (np.nan_to_num(side.astype(np.complex128), posinf=1e300, neginf=-1e300) for side in (got, native))
        apart = np.where(got == native, 0.0, np.abs(one - other) / (np.abs(one) + np.abs(other) + 1e-300))
        if is_float(got.dtype.name):
            apart = np.where(np.isnan(got) != np.isnan(native), np.inf, np.where(np.isnan(got), 0.0, apart))
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(np.where(chosen, apart, -1.0))), apart.shape))


def _values(
    rows: Sequence[TargetResult], index: int, name: str, native: Arrays, place: tuple[int, ...]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the values at an index with the targets that return them; values equal to four digits are merged."""
    told: dict[str, list[str]] = {}
    for row in rows:
        array = _named(row.execution.outputs[index], name, native) if index < len(row.execution.outputs) else None
        if array is not None and array.shape == native[name].shape:
            told.setdefault(_shown(array[place]), []).append(str(row.target))
    return tuple((value, tuple(targets)) for value, targets in told.items())


def _shown(value: Any) -> str:
    if value != value:
        return "NaN"
    if isinstance(value, (np.bool_, np.integer)):
        return str(value)
    return f"{complex(value):.4g}" if np.iscomplexobj(value) else f"{float(value):.4g}"
