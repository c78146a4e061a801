"""The outputs of a compiler held against the answer of a shadow, one after the other, and what is said of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from driftline.core.tensors import Array, Arrays, is_float
from driftline.core.text import told_apart
from driftline.core.verdict import Kind
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.nonfinite import compare_classes
from driftline.oracle.statistics import AGGREGATE_LIMIT, ELEMENT_LIMIT, Deviation, Noise, measure

UNMODELLED = 1000.0  # times as far off as the unoptimised run: no flaw of the noise model
_OF_INPUTS = {"grad": "the gradient of", "mutated": "the change of"}


def called(name: str) -> str:
    """An output as a sentence speaks of it: one without a name of its own goes by its place."""
    what, _, given = name.partition(":")
    if given and what in _OF_INPUTS:
        return f"{_OF_INPUTS[what]} {_placed('input', given)}"
    return _placed("output", name)


def _placed(noun: str, name: str) -> str:
    return f"{noun} {name}" if name[:1].isdigit() else name


@dataclass(frozen=True)
class ShadowAnswer:
    """What a shadow says of all outputs of a program on one input sample."""

    reference: Arrays
    samples: Arrays  # one row per run
    low: Arrays
    high: Arrays
    choices: Mapping[str, str] = field(default_factory=dict)  # choice that was looked at -> why it is not valid
    choosing: tuple[str, ...] = ()  # outputs that are choices
    open: Arrays = field(default_factory=dict)  # elements that depend on something the specification leaves open
    clauses: tuple[str, ...] = ()
    unruled: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()  # float types, and `exponential` or `quantised` where the program has such steps
    worst_case: float = 0.0  # how many sigma rounding could do if all errors of the graph conspired

    @property
    def nbytes(self) -> int:
        """The memory that the arrays take."""
        sides = (self.reference, self.samples, self.low, self.high, self.open)
        return sum(array.nbytes for side in sides for array in side.values())

    @property
    def runs(self) -> int:
        return max((rows.shape[0] for rows in self.samples.values()), default=0)


@dataclass(frozen=True)
class Finding:
    """What is wrong with an output."""

    kind: Kind
    output: str
    reason: str
    evidence: Mapping[str, Any]


@dataclass(frozen=True)
class Judged:
    """The result for all outputs: a finding, or how close to one it came and how much could not be judged."""

    finding: Finding | None = None
    unjudged: int = 0
    closest: Mapping[str, Any] = field(default_factory=dict)
    totals: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # for pooling over inputs
    unspecified: tuple[str, ...] = ()  # clauses on which differences rest that are no findings
    unruled: tuple[str, ...] = ()
    noisy: int = 0  # how many of the unjudged are so because they move too much


def judge_all(
    given: Arrays, native: Arrays, shadow: ShadowAnswer, arithmetic: Arithmetic, *, excuses: bool = True
) -> Judged:
    got, differs = _without_open(given, native, shadow)
    unspecified = shadow.clauses if differs else ()
    unjudged = noisy = 0
    totals: dict[str, tuple[float, float]] = {}
    closest: Mapping[str, Any] = {}
    for name, value in native.items():
        if _same_values(got[name], value):
            continue  # nothing but the sign of a zero or the bits of a NaN
        if name not in shadow.reference or shadow.reference[name].shape != value.shape:
            if got[name].tobytes() != value.tobytes():
                unjudged += value.size
            continue
        if got[name].dtype.kind == "c":
            # What NaN and Inf do in complex arithmetic depends on how a product is written out: where the program
            # itself has them, nothing is judged.
            finite = np.isfinite(native[name]) & np.isfinite(shadow.reference[name])
            unjudged += int((~finite).sum())
            halves = _parts(np.where(finite, got[name], native[name]), native[name], shadow, name)
            parts = [_judge_float(name, g, n, r, s, lo, hi, arithmetic) for g, n, r, s, lo, hi in halves]
        elif is_float(got[name].dtype.name):
            samples = _known_only(shadow.samples[name], shadow.open.get(name))
            noise = (shadow.reference[name], samples, shadow.low[name], shadow.high[name])
            part = _judge_float(name, got[name], native[name], *noise, arithmetic)
            parts = [replace(part, finding=_with_severity(part.finding, shadow.worst_case))]
        else:
            parts = [_judge_exact(name, got[name], native[name], shadow)]
        for part in parts:
            if part.finding and excuses and _is_unmodelled(part.finding):
                unjudged += value.size
                continue
            if part.finding:
                return Judged(part.finding, unjudged, closest, totals, unspecified, shadow.unruled)
            unjudged += part.unjudged
            noisy += part.noisy
            totals |= {f"{name}: {kind}": total for kind, total in part.near.get("totals", {}).items()}
            if part.near.get("z", -1.0) > closest.get("z", -1.0):
                closest = part.near
    return Judged(None, unjudged, closest, totals, unspecified, shadow.unruled, noisy)


def _without_open(got: Arrays, native: Arrays, shadow: ShadowAnswer) -> tuple[Arrays, bool]:
    """The outputs with open elements made equal to the reference's, and whether any of them differed."""
    settled: Arrays = {}
    differs = False
    for name, value in got.items():
        mask = shadow.open.get(name)
        if mask is None or mask.shape != value.shape or not mask.any():
            settled[name] = value
            continue
        settled[name] = np.where(mask, native[name], value)
        both_nan = (value != value) & (native[name] != native[name])
        differs |= bool((mask & (value != native[name]) & ~both_nan).any())
    return settled, differs


def _same_values(got: Array, native: Array) -> bool:
    return bool(((got == native) | ((got != got) & (native != native))).all())


def _known_only(samples: Array, mask: Array | None) -> Array:
    """Samples without open elements: what stands there, such as old memory, says nothing about usual rounding."""
    if mask is None or mask.shape != samples.shape[1:] or not mask.any():
        return samples
    return np.where(mask, np.nan, samples)


@dataclass(frozen=True)
class Part:
    """What is said of one output, or of the real or imaginary half of one; `near` is how close it came to a finding."""

    finding: Finding | None = None
    unjudged: int = 0
    near: Mapping[str, Any] = field(default_factory=dict)
    noisy: int = 0


def _parts(got: Array, native: Array, shadow: ShadowAnswer, name: str) -> list[tuple[Array, ...]]:
    fields = (got, native, shadow.reference[name], shadow.samples[name], shadow.low[name], shadow.high[name])
    return [tuple(np.array(getattr(f, part)) for f in fields) for part in ("real", "imag")]


def _judge_exact(name: str, got: Array, native: Array, shadow: ShadowAnswer) -> Part:
    """Integers and booleans: equal to the reference, within the band of legal steps, or a valid choice."""
    if shadow.choices.get(name) == "":
        return Part()
    wrong = (got != native) & (got != shadow.reference[name])
    if name not in shadow.choosing:  # between two legal places there is no legal third
        wrong &= ~((got >= shadow.low[name]) & (got <= shadow.high[name]))
    if not wrong.any():
        return Part()
    place = _first(wrong)
    reason = f"{_count(wrong)} differ; at {place}: expected {native[place]}, got {got[place]}"
    if shadow.choices.get(name):
        reason = f"not a valid choice: {shadow.choices[name]}"
    evidence = {
        "mismatched": int(wrong.sum()),
        "size": got.size,
        "place": list(place),
        "expected": str(native[place]),
        "got": str(got[place]),
        "dtype": got.dtype.name,
        "choice": name in shadow.choosing,
    }
    return Part(Finding(Kind.WRONG_VALUE, name, reason, evidence))


def _judge_float(
    name: str, got: Array, native: Array, reference: Array, samples: Array, low: Array, high: Array,
    arithmetic: Arithmetic,
) -> Part:  # fmt: skip
    dtype = got.dtype.name
    with np.errstate(all="ignore"):
        value = got.astype(np.float64)
        finding, undecided = _judge_classes(name, got, native, reference, samples, arithmetic)
        noise = Noise(reference, samples - reference, low, high)
        # Where the program itself overflows and float64 does not, there is no number to hold against another one.
        overflown = np.isfinite(reference.astype(got.dtype)) & ~np.isfinite(native)
        undecided = undecided | overflown
        deviation = measure(np.where(overflown, reference, value), noise, dtype, arithmetic)
        own = measure(native.astype(np.float64), noise, dtype, arithmetic, aggregates=False)
    evidence = _evidence(name, value, native, reference, deviation, own, samples.shape[0])
    unjudged = int((deviation.unjudged | undecided).sum())
    evidence |= {"dtype": dtype, "size": got.size, "unjudged": unjudged}
    if deviation.element > ELEMENT_LIMIT:
        # Where numbers are wrong too, a NaN among them is the lesser news.
        reason = _words(evidence) + (f"; besides, {finding.reason}" if finding else "")
        return Part(Finding(Kind.WRONG_VALUE, name, reason, evidence), unjudged, evidence)
    if finding:
        return Part(finding)
    if deviation.aggregate > AGGREGATE_LIMIT:
        reason = (
            f"bias: no single element stands out, but together they drift ({deviation.direction},"
            f" {deviation.aggregate:.0f} sigma)"
        )
        return Part(Finding(Kind.BIAS, name, reason, evidence), unjudged, evidence)
    return Part(None, unjudged, evidence, deviation.noisy)


def _judge_classes(
    name: str, got: Array, native: Array, reference: Array, samples: Array, arithmetic: Arithmetic
) -> tuple[Finding | None, Array]:
    """A NaN or Inf in the wrong place, and the elements that no number can be held against."""
    wrong, undecided = compare_classes(got, native, reference, samples, arithmetic)
    if not wrong.any():
        return None, undecided
    place = _first(wrong)
    perfect = float(reference[place].astype(got.dtype))
    reason = f"{_count(wrong)} differ in NaN or Inf; at {place}: expected {perfect}, got {got[place]}"
    evidence = {
        "mismatched": int(wrong.sum()),
        "size": got.size,
        "place": list(place),
        "expected": str(perfect),
        "got": str(got[place]),
        "dtype": got.dtype.name,
    }
    return Finding(Kind.WRONG_NONFINITE, name, reason, evidence), undecided


def _evidence(
    name: str, value: Array, native: Array, reference: Array, deviation: Deviation, own: Deviation, runs: int
) -> dict[str, Any]:
    place = deviation.place
    with np.errstate(all="ignore"):
        eager = float(np.abs(native.astype(np.float64)[place] - reference[place])) if reference.size else 0.0
    return {
        "output": name,
        "z": max(deviation.element, deviation.aggregate * ELEMENT_LIMIT / AGGREGATE_LIMIT),
        "element_z": deviation.element,
        "aggregate_z": deviation.aggregate,
        "direction": deviation.direction,
        "place": list(place),
        "expected": repr(float(reference[place])) if reference.size else "",
        "got": repr(float(value[place])) if reference.size else "",
        "error": deviation.error,
        "sigma": deviation.sigma,
        "native_z": eager / deviation.sigma if deviation.sigma else 0.0,
        "native_worst_z": own.element,
        "runs": runs,
        "totals": deviation.totals,
    }


def _with_severity(finding: Finding | None, worst_case: float) -> Finding | None:
    """Label a wrong element: certain when it lies beyond even what all errors of the graph together could do."""
    if finding is None or finding.kind is not Kind.WRONG_VALUE or "element_z" not in finding.evidence:
        return finding
    certain = finding.evidence["element_z"] > worst_case > 0
    words = "beyond even the worst-case bound of rounding" if certain else "beyond what rounding does in practice"
    evidence = {**finding.evidence, "severity": "certain" if certain else "statistical", "worst_case": worst_case}
    return replace(finding, reason=f"{finding.reason} ({words})", evidence=evidence)


def _words(e: Mapping[str, Any]) -> str:
    expected, got = told_apart(float(e["expected"]), float(e["got"]))
    return (
        f"at {tuple(e['place'])} expected {expected}, got {got}: legal rounding moves"
        f" this element by {e['sigma']:.2g}; the compiler moved it by {e['error'] / e['sigma']:.3g} times that;"
        f" the unoptimised run stands at {e['native_z']:.2g}"
    )


def _first(mask: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def _count(mask: Array) -> str:
    return f"{int(mask.sum())} of {mask.size} elements"


def _is_unmodelled(found: Finding) -> bool:
    """Where the program's own unoptimised run stands as far off, the noise model does not cover the program: then a
    wrong element is one only if it is much further off than that."""
    if found.kind not in (Kind.WRONG_VALUE, Kind.BIAS):
        return False
    own = float(found.evidence.get("native_worst_z", 0.0))
    return own > ELEMENT_LIMIT and float(found.evidence.get("z", 0.0)) <= UNMODELLED * own
