"""Compares all targets of a check with each other and with the reference: distances, and groups that agree.

Verdicts are not made here but by the oracle. A target that passes is within rounding of the reference, so the passing
targets form one group with it. The others are compared by a plain limit: 64 roundings of the largest element, as in the
oracle's rule for a program without a float64 result. Results are compared block by block, so the memory needed does not
grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from driftline.checking.checker import CheckOutcome, TargetResult
from driftline.core.execution import Outcome
from driftline.core.target import Target
from driftline.core.tensors import Array, Arrays, is_float
from driftline.core.verdict import Judgement
from driftline.oracle.compare import BLIND
from driftline.oracle.metrics import BLOCK, TensorMetrics, compare_tensors

REFERENCE = "reference"  # the name of the reference among the targets
_OFTEN_MISSING = ("mutated:", "grad:")  # not every target returns these
_JUDGED_WRONG = (Judgement.FAIL, Judgement.REDUCED)


@dataclass(frozen=True)
class PairDistance:
    """The largest difference between the results of two members, over all samples, outputs and elements."""

    one: str
    other: str
    elements: int = 0
    differing: int = 0  # elements whose bits differ; all NaNs count as equal
    absolute: float = 0.0  # over the elements that are finite on both sides, as are the next two
    relative: float = 0.0  # relative to the larger of the two numbers
    ulp: float | None = None  # None if no output is a float
    nonfinite: int = 0  # elements that are NaN or infinite on one side only, or infinities of opposite signs
    where: str = ""  # the element with the largest difference
    incomparable: str = ""  # why the results cannot be compared
    within_rounding: bool = False

    @property
    def bitwise(self) -> bool:
        return not self.incomparable and not self.differing

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "bitwise": self.bitwise}


@dataclass(frozen=True)
class Pairwise:
    """The matrix of distances, and the groups that follow from it."""

    title: str
    members: tuple[str, ...]  # the reference first, if there is one
    pairs: tuple[PairDistance, ...]
    missing: tuple[tuple[str, str], ...]  # targets without a result, with the reason
    groups: tuple[tuple[str, ...], ...]  # within rounding of each other
    same_bits: tuple[tuple[str, ...], ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "members": list(self.members),
            "pairs": [pair.to_json() for pair in self.pairs],
            "missing": [{"target": target, "reason": reason} for target, reason in self.missing],
            "groups": {
                "bitwise": [list(group) for group in self.same_bits],
                "within_rounding": [list(group) for group in self.groups],
            },
        }


@dataclass(frozen=True)
class _WithResults:
    name: str
    samples: tuple[Arrays, ...]
    agrees: bool
    wrong: bool


def pairwise(outcome: CheckOutcome, only: Sequence[Target] | None = None, title: str = "") -> Pairwise:
    """Compare the reference and the targets of a check (or those in `only`) with each other."""
    rows = [row for row in outcome.results if only is None or row.target in only]
    expected = tuple(sample.native for sample in outcome.reference.samples)
    members = []
    if expected and all(expected):
        members.append(_WithResults(REFERENCE, expected, agrees=True, wrong=False))
    members += [_member(row, expected) for row in rows if _has_results(row)]
    pairs = {(a.name, b.name): _distance(a, b) for a, b in combinations(members, 2)}
    names = [member.name for member in members]
    skipped = [(str(s.target), s.reason) for s in outcome.skipped if only is None or s.target in only]
    return Pairwise(
        title or outcome.case.runs.name,
        tuple(names),
        tuple(pairs.values()),
        (*((str(row.target), _why_missing(row)) for row in rows if not _has_results(row)), *skipped),
        _grouped(names, lambda a, b: pairs[a, b].within_rounding),
        _grouped(names, lambda a, b: pairs[a, b].bitwise),
    )


def _has_results(row: TargetResult) -> bool:
    execution = row.first_execution
    return execution.outcome is Outcome.OK and bool(execution.outputs) and not execution.problem


def _why_missing(row: TargetResult) -> str:
    return row.execution.problem or f"{row.verdict.judgement}: {row.verdict.reason}"


def _member(row: TargetResult, expected: Sequence[Arrays]) -> _WithResults:
    """Return a target's results, under the reference's names if the target names them differently."""
    samples = list(row.first_execution.outputs)
    for at, native in enumerate(expected[: len(samples)]):
        plain = [name for name in native if not name.startswith(_OFTEN_MISSING)]
        if not set(samples[at]) & set(plain) and len(samples[at]) == len(plain):
            samples[at] = dict(zip(plain, samples[at].values(), strict=True))
    wrong = row.verdict.judgement in _JUDGED_WRONG and not row.passing
    return _WithResults(str(row.target), tuple(samples), row.verdict.agrees or row.passing is not None, wrong)


def _distance(one: _WithResults, other: _WithResults) -> PairDistance:
    total = _Farthest()
    for number, (a, b) in enumerate(zip(one.samples, other.samples, strict=False)):
        if why := total.add(a, b, f" of sample {number}" if len(one.samples) > 1 else ""):
            return PairDistance(one.name, other.name, incomparable=why)
    bitwise = not total.differing
    judged_apart = (one.agrees and other.wrong) or (one.wrong and other.agrees)
    within = bitwise or (one.agrees and other.agrees) or (not total.beyond and not judged_apart)
    return PairDistance(
        one.name, other.name, total.elements, total.differing, total.absolute, total.relative, total.ulp,
        total.nonfinite, total.where, within_rounding=within,
    )  # fmt: skip


class _Farthest:
    """Collects the largest differences."""

    def __init__(self) -> None:
        self.elements = self.differing = self.nonfinite = self.beyond = 0
        self.absolute = self.relative = 0.0
        self.ulp: float | None = None
        self.where = ""

    def add(self, one: Arrays, other: Arrays, sample: str) -> str:
        """Add the results on one sample; return why they cannot be compared, or an empty string."""
        alone = [name for name in {**one, **other} if (name in one) != (name in other)]
        alone = [name for name in alone if not name.startswith(_OFTEN_MISSING)]
        if alone:
            return f"only one of them returns {', '.join(alone)}"
        for name, a in one.items():
            if name not in other:
                continue
            b = other[name]
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                return f"{name} is {a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
            self._add_output(name, a, b, sample)
        return ""

    def _add_output(self, name: str, a: Array, b: Array, sample: str) -> None:
        limit = BLIND * _rounding(a.dtype) * max(_largest(a), _largest(b))
        found = compare_tensors(a, b, atol=limit, symmetric=True)
        self.elements += found.size
        self.differing += sum(_differing_bits(x, y) for x, y in zip(_pieces(a), _pieces(b), strict=True))
        self.nonfinite += found.nonfinite_mismatched
        self.beyond += found.mismatched
        if found.max_abs > self.absolute or (found.nonfinite_mismatched and not self.where):
            self.where = f"{name}{_place(found)}{sample}"
        self.absolute = max(self.absolute, found.max_abs)
        self.relative = max(self.relative, found.max_rel)
        if is_float(a.dtype.name):
            self.ulp = max(self.ulp or 0.0, found.max_ulp)


def _place(found: TensorMetrics) -> str:
    return f"[{', '.join(map(str, found.worst))}]" if found.worst else ""


def _rounding(dtype: np.dtype[Any]) -> float:
    """Return half the distance from 1 to the next number; 0 for dtypes without rounding."""
    import ml_dtypes

    if dtype.kind == "c":
        return float(np.finfo(dtype).eps) / 2
    return float(ml_dtypes.finfo(dtype).eps) / 2 if is_float(dtype.name) else 0.0


def _pieces(array: Array) -> Iterator[Array]:
    flat = np.ascontiguousarray(array).reshape(-1)
    for start in range(0, max(flat.size, 1), BLOCK):
        yield flat[start : start + BLOCK]


def _largest(array: Array) -> float:
    """Return the largest magnitude among the finite elements; 0 for integers and booleans."""
    if array.dtype.kind in "biu":
        return 0.0
    largest = 0.0
    for piece in _pieces(array):
        with np.errstate(all="ignore"):
            sizes = np.abs(piece.astype(np.complex128 if piece.dtype.kind == "c" else np.float64))
        largest = max(largest, float(sizes[np.isfinite(sizes)].max(initial=0.0)))
    return largest


def _differing_bits(a: Array, b: Array) -> int:
    if a.dtype.kind == "c":
        halves = np.dtype(f"f{a.dtype.itemsize // 2}")
        same = _same_bits(a.view(halves), b.view(halves)).reshape(-1, 2).all(axis=1)
        return int((~same).sum())
    return int((~_same_bits(a, b)).sum())


def _same_bits(a: Array, b: Array) -> Array:
    bits = f"u{a.dtype.itemsize}"
    same: Array = a.view(bits) == b.view(bits)
    return same | (np.isnan(a) & np.isnan(b)) if is_float(a.dtype.name) else same


def _grouped(names: Sequence[str], together: Callable[[str, str], bool]) -> tuple[tuple[str, ...], ...]:
    """Group the members: each joins the first group whose first member it belongs together with."""
    groups: list[list[str]] = []
    for name in names:
        fitting = next((group for group in groups if together(group[0], name)), None)
        if fitting is None:
            groups.append([name])
        else:
            fitting.append(name)
    return tuple(tuple(group) for group in groups)
