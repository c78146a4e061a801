"""Compare the outputs of a compiler with the answer of a shadow, output by output, and describe what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from driftline.core.evidence import NOTHING, Element, Evidence, Fault, Totals
from driftline.core.faults import faults_of, narrower_than
from driftline.core.sentences import describe
from driftline.core.tensors import Array, Arrays, is_float
from driftline.core.verdict import Kind
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.differing import KEPT, elements, places, regions_of
from driftline.oracle.differing import plain as number_of
from driftline.oracle.nonfinite import compare_classes
from driftline.oracle.shadow.decisions import OTHER_PLACES
from driftline.oracle.statistics import (
    AGGREGATE_LIMIT,
    ELEMENT_LIMIT,
    ILL_CONDITIONED,
    Deviation,
    Noise,
    measure,
    typical_size,
)

MOST_ODD = 64  # wrong NaN and infinities that are examined for their faults
QUARTILE_OF_NORMAL = 0.3186  # the lower quartile of the magnitude of normal numbers with sigma 1
SAME_DRIFT = 1.5  # times the drift of the unoptimised run, at most: the output drifts as that run does
UNMODELLED = 1000.0  # times the unoptimised run's error: a gap in the noise model explains no more


@dataclass(frozen=True)
class ShadowAnswer:
    """The answer of a shadow for all outputs of a program on one input sample: reference values, noisy samples of them,
    and the elements that the specification leaves open."""

    reference: Arrays
    samples: Arrays  # one row per run
    low: Arrays
    high: Arrays
    choices: Mapping[str, str] = field(default_factory=dict)  # choice that was checked -> why it is not valid
    choosing: tuple[str, ...] = ()  # outputs that are choices
    open: Arrays = field(default_factory=dict)  # elements that depend on something the specification leaves open
    bound: Arrays = field(default_factory=dict)  # open elements that match one of `readings`
    readings: Arrays = field(default_factory=dict)  # one row for each way to read the clauses
    clauses: tuple[str, ...] = ()
    unruled: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()  # float types, and `exponential`, `quantised` or `subnormal` if such occur
    worst_case: float = 0.0  # sigma that rounding could reach if all errors of the graph added up

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        sides = (self.reference, self.samples, self.low, self.high, self.open, self.bound, self.readings)
        return sum(array.nbytes for side in sides for array in side.values())

    @property
    def runs(self) -> int:
        """The number of noisy runs."""
        return max((rows.shape[0] for rows in self.samples.values()), default=0)


@dataclass(frozen=True)
class WrongOutput:
    """A wrong output: the kind of failure and the evidence."""

    kind: Kind
    evidence: Evidence

    @property
    def output(self) -> str:
        return self.evidence.output

    @property
    def reason(self) -> str:
        """A description of the failure, without the name of the output."""
        return describe(self.kind, replace(self.evidence, output=""))


@dataclass(frozen=True)
class JudgedOutputs:
    """The result for all outputs: the first finding, or how close the outputs came to one, and how much was not
    judged."""

    finding: WrongOutput | None = None
    unjudged: int = 0
    closest: Evidence = NOTHING
    totals: Totals = field(default_factory=dict)  # for pooling over inputs
    unspecified: tuple[str, ...] = ()  # clauses that explain differences which are not findings
    unruled: tuple[str, ...] = ()
    noisy: int = 0  # unjudged elements that are too noisy
    excused: int = 0  # unjudged elements where the unoptimised run is as far off
    outputs_unjudged: tuple[str, ...] = ()  # outputs of which no element could be judged


def judge_all(
    given: Arrays, native: Arrays, shadow: ShadowAnswer, arithmetic: Arithmetic, *, excuses: bool = True
) -> JudgedOutputs:
    """Judge all outputs in `given` by the answer of the shadow. With `excuses`, differences no larger than those of the
    unoptimised run are not findings."""
    plain = native
    native, shadow = with_readings(given, native, shadow, arithmetic)
    got, differs = _without_open(given, native, shadow, arithmetic)
    unspecified = shadow.clauses if differs else ()
    unjudged: Counter[str] = Counter()
    noisy = excused = 0
    totals: dict[str, tuple[float, float]] = {}
    closest = NOTHING
    for name, value in native.items():
        if _same_values(got[name], value):
            continue  # they differ at most in the sign of zeros or the bits of NaNs
        if name not in shadow.reference or shadow.reference[name].shape != value.shape:
            if got[name].tobytes() != value.tobytes():
                unjudged[name] += value.size
            continue
        if got[name].dtype.kind == "c":
            # NaN and Inf in complex arithmetic depend on how a product is written out, so elements are not judged where
            # the program itself has them.
            finite = np.isfinite(native[name]) & np.isfinite(shadow.reference[name])
            unjudged[name] += int((~finite).sum())
            halves = _parts(np.where(finite, got[name], native[name]), native[name], shadow, name)
            parts = [_judge_float(name, g, n, Shadowed(r, s, lo, hi), arithmetic) for g, n, r, s, lo, hi in halves]
        elif is_float(got[name].dtype.name):
            samples = _known_only(shadow.samples[name], shadow.open.get(name))
            noise = Shadowed(shadow.reference[name], samples, shadow.low[name], shadow.high[name], shadow.worst_case)
            part = _judge_float(name, got[name], native[name], noise, arithmetic)
            if part.finding and excuses and _is_unmodelled(part.finding):
                # Many steps may add up to more than a few shuffled runs show, also in the unoptimised run. An element
                # that is wrong even if the spread of steps counts as movement needs no excuse.
                more = _judge_float(name, got[name], native[name], noise, arithmetic, steps_move=True)
                # A drift does not count: it appears in elements without steps, where the spread says nothing.
                stands_out = more.finding and more.finding.kind is not Kind.BIAS and not _is_unmodelled(more.finding)
                part = more if stands_out else part
            parts = [replace(part, finding=_with_severity(part.finding, shadow.worst_case))]
        else:
            parts = [_judge_exact(name, got[name], native[name], shadow)]
        for part in parts:
            if part.finding and excuses and _is_unmodelled(part.finding):
                unjudged[name] += value.size
                excused += value.size
                continue
            if part.finding:
                finding = _with_what_it_gave(part.finding, plain[name], native[name])
                return JudgedOutputs(finding, unjudged.total(), closest, totals, unspecified, shadow.unruled)
            unjudged[name] += part.unjudged
            noisy += part.noisy
            totals |= {f"{name}: {kind}": total for kind, total in part.near.totals.items()}
            if _near(part.near) > _near(closest):
                closest = part.near
    whole = tuple(name for name, count in unjudged.items() if 0 < native[name].size <= count)
    return JudgedOutputs(None, unjudged.total(), closest, totals, unspecified, shadow.unruled, noisy, excused, whole)


def _with_what_it_gave(finding: WrongOutput, plain: Array, native: Array) -> WrongOutput:
    """Restore the values of the unoptimised run in the evidence, for elements that are judged against another reading
    of the specification than the run's own. The error of the unoptimised run is removed there, because it has no
    meaning."""
    found = finding.evidence

    def is_other(element: Element) -> bool:
        own, judged = plain[element.place], native[element.place]
        return bool(own != judged and not (own != own and judged != judged))

    if plain.shape != native.shape or plain.dtype.kind == "c" or not any(map(is_other, found.worst)):
        return finding
    worst = tuple(
        replace(element, unoptimised=number_of(plain[element.place])) if is_other(element) else element
        for element in found.worst
    )
    native_z = None if is_other(found.worst[0]) else found.native_z
    return replace(finding, evidence=replace(found, worst=worst, native_z=native_z))


def _without_open(got: Arrays, native: Arrays, shadow: ShadowAnswer, arithmetic: Arithmetic) -> tuple[Arrays, bool]:
    """Return the outputs with open elements set to the reference's values, and whether any open element differed by
    more than rounding."""
    settled: Arrays = {}
    differs = False
    for name, value in got.items():
        mask = shadow.open.get(name)
        if mask is None or mask.shape != value.shape or not mask.any():
            settled[name] = value
            continue
        settled[name] = np.where(mask, native[name], value)
        both_nan = (value != value) & (native[name] != native[name])
        differing = mask & (value != native[name]) & ~both_nan
        if differing.any():
            differs |= not _only_rounded(name, value, shadow, arithmetic)[differing].all()
    return settled, differs


def with_readings(
    got: Arrays, native: Arrays, shadow: ShadowAnswer, arithmetic: Arithmetic
) -> tuple[Arrays, ShadowAnswer]:
    """Return `native` and `shadow` in which elements of `got` that match none of their allowed readings are no longer
    open, but have the value of the closest reading, by which they are then judged."""
    native, left_open, reference = dict(native), dict(shadow.open), dict(shadow.reference)
    samples, low, high = dict(shadow.samples), dict(shadow.low), dict(shadow.high)
    for name, bound in shadow.bound.items():
        if bound.shape != got[name].shape:
            continue
        rows = np.stack([*shadow.readings[name], reference[name]])
        wrong = bound & ~_as_read(got[name], rows, arithmetic)
        if not wrong.any():
            continue
        with np.errstate(all="ignore"):
            far = np.abs(rows - got[name])
        nearest = np.take_along_axis(rows, np.where(np.isnan(far), np.inf, far).argmin(0)[np.newaxis], 0)[0]
        left_open[name] = left_open[name] & ~wrong
        native[name] = np.where(wrong, nearest.astype(native[name].dtype), native[name])
        for side in (reference, samples, low, high):
            side[name] = np.where(wrong, nearest, side[name])
    return native, replace(shadow, open=left_open, reference=reference, samples=samples, low=low, high=high)


def _as_read(got: Array, rows: Array, arithmetic: Arithmetic) -> Array:
    """Return a mask of the elements of `got` that match the readings in `rows`: numbers between the lowest and highest
    reading (a result may combine several), and NaN or infinities that occur in one of them.

    How far rounding moves a reading is not known, since the noisy runs follow the reference's own reading. A number
    that the operators behind the reading have rounded must not count as another result, so the room is much wider than
    one rounding; a reading that was not followed at all is further off.
    """
    parts = ((got.real, rows.real), (got.imag, rows.imag)) if got.dtype.kind == "c" else ((got, rows),)
    legal = np.ones(got.shape, dtype=bool)
    for value, each in parts:
        finite = np.isfinite(each)
        room = arithmetic.unit(got.dtype.name) ** 0.5 / 4 if got.dtype.kind not in "biu" else 0.0
        usual = float(np.median(np.abs(each[finite]))) if room and finite.any() else 0.0
        with np.errstate(all="ignore"):
            low, high = np.where(finite, each, np.inf).min(0), np.where(finite, each, -np.inf).max(0)
            within = (value >= low - room * np.maximum(np.abs(low), usual)) & (
                value <= high + room * np.maximum(np.abs(high), usual)
            )
        within |= (np.isnan(value) & np.isnan(each).any(0)) | (np.isinf(value) & (value == each).any(0))
        legal &= within
    return legal


def _only_rounded(name: str, value: Array, shadow: ShadowAnswer, arithmetic: Arithmetic) -> Array:
    """Return a mask of the elements that differ from the reference by no more than rounding.

    In many noisy runs an open element takes another value, which must not count as rounding, so sigma is estimated from
    the quarter of the runs in which the element moved least.
    """
    if not is_float(value.dtype.name) or name not in shadow.reference or shadow.reference[name].shape != value.shape:
        return np.zeros(value.shape, bool)
    reference = shadow.reference[name]
    with np.errstate(all="ignore"):
        sigma = np.quantile(np.abs(shadow.samples[name] - reference), 0.25, axis=0) / QUARTILE_OF_NORMAL
        off = np.abs(value.astype(np.float64) - reference) - arithmetic.unit(value.dtype.name) * np.abs(reference)
        size = np.maximum(np.abs(reference), typical_size(reference, np.isfinite(reference)))
        return np.asarray((off <= ELEMENT_LIMIT * sigma) & (sigma <= ILL_CONDITIONED * size))


def _same_values(got: Array, native: Array) -> bool:
    return bool(((got == native) | ((got != got) & (native != native))).all())


def _known_only(samples: Array, mask: Array | None) -> Array:
    """Return the samples with open elements set to NaN: their values, such as old memory, say nothing about
    rounding."""
    if mask is None or mask.shape != samples.shape[1:] or not mask.any():
        return samples
    return np.where(mask, np.nan, samples)


@dataclass(frozen=True)
class JudgedPart:
    """The result for one output, or for the real or imaginary part of one; `near` describes how close it came to a
    finding."""

    finding: WrongOutput | None = None
    unjudged: int = 0
    near: Evidence = NOTHING
    noisy: int = 0


def _parts(got: Array, native: Array, shadow: ShadowAnswer, name: str) -> list[tuple[Array, ...]]:
    fields = (got, native, shadow.reference[name], shadow.samples[name], shadow.low[name], shadow.high[name])
    return [tuple(np.array(getattr(f, part)) for f in fields) for part in ("real", "imag")]


def _judge_exact(name: str, got: Array, native: Array, shadow: ShadowAnswer) -> JudgedPart:
    """Judge integers and booleans: they must equal the reference, lie within the band of legal steps, or be a valid
    choice."""
    if shadow.choices.get(name) == "":
        return JudgedPart()
    wrong = (got != native) & (got != shadow.reference[name])
    # Between two legal indices no third is legal. But a choice among integers may be among indices that rounding
    # decides.
    if name not in shadow.choosing or shadow.choices.get(name) == OTHER_PLACES:
        wrong &= ~((got >= shadow.low[name]) & (got <= shadow.high[name]))
    if not wrong.any():
        return JudgedPart()
    with np.errstate(all="ignore"):
        far = np.abs(got.astype(np.float64) - native.astype(np.float64))
    worst = elements(native, got, places(far, wrong))
    choosing = name in shadow.choosing
    evidence = Evidence(
        output=name,
        dtype=got.dtype.name,
        elements=got.size,
        wrong=int(wrong.sum()),
        worst=worst,
        faults=((Fault.TIES,) if choosing else ()) + faults_of(worst, got.dtype.name),
        regions=regions_of(wrong),
        narrower=narrower_than(worst[0], got.dtype.name),
        invalid_choice=shadow.choices.get(name, ""),
    )
    return JudgedPart(WrongOutput(Kind.WRONG_VALUE, evidence))


@dataclass(frozen=True)
class Shadowed:
    """The answer of the shadow for one output."""

    reference: Array
    samples: Array
    low: Array  # the band of legal steps
    high: Array
    worst_case: float = 0.0


def _judge_float(
    name: str, got: Array, native: Array, shadow: Shadowed, arithmetic: Arithmetic, *, steps_move: bool = False
) -> JudgedPart:
    dtype, reference, samples = got.dtype.name, shadow.reference, shadow.samples
    with np.errstate(all="ignore"):
        value = got.astype(np.float64)
        odd, undecided = compare_classes(got, native, reference, samples, arithmetic)
        noise = Noise(reference, samples - reference, shadow.low, shadow.high, steps_move)
        # Where the program itself overflows but float64 does not, there is no number to compare with.
        overflown = np.isfinite(reference.astype(got.dtype)) & ~np.isfinite(native)
        undecided = undecided | overflown
        own_value = native.astype(np.float64)
        deviation = measure(
            np.where(overflown, reference, value),
            noise,
            dtype,
            arithmetic,
            native=own_value,
            worst_case=shadow.worst_case,
        )
        own = measure(own_value, noise, dtype, arithmetic, aggregates=False)
    unjudged = int((deviation.unjudged | undecided).sum())
    near = _near_miss(name, value, native, shadow, deviation, own)
    near = replace(near, dtype=dtype, elements=got.size, unjudged=unjudged)
    if deviation.element > ELEMENT_LIMIT:
        # Wrong numbers are reported before wrong NaNs.
        wrong = deviation.scores > ELEMENT_LIMIT
        at = [deviation.place, *(place for place in places(deviation.scores, wrong) if place != deviation.place)]
        worst = elements(reference, value, at, native, deviation.sigmas) + _odd_ones(got, native, reference, odd)[:1]
        faults = faults_of(worst, dtype)
        if 2 * unjudged > got.size:
            faults = (Fault.ILL_CONDITIONED, *faults)
        found = replace(
            near,
            wrong=int((wrong | odd).sum()),
            wrong_nonfinite=int(odd.sum()),
            worst=worst,
            faults=faults,
            regions=regions_of(wrong | odd),
            narrower=narrower_than(worst[0], dtype),
        )
        return JudgedPart(WrongOutput(Kind.WRONG_VALUE, found), unjudged, near)
    if odd.any():
        return JudgedPart(WrongOutput(Kind.WRONG_NONFINITE, _nonfinite(name, got, native, reference, odd)))
    if deviation.aggregate > AGGREGATE_LIMIT:
        drift = measure(own_value, noise, dtype, arithmetic).aggregate
        # A drift of the program's own, which the noise model does not cover.
        if own.element <= ELEMENT_LIMIT and deviation.aggregate <= SAME_DRIFT * drift:
            return JudgedPart(None, unjudged, replace(near, totals={}), deviation.noisy)
        return JudgedPart(WrongOutput(Kind.BIAS, replace(near, faults=(Fault.NUMBER,))), unjudged, near)
    return JudgedPart(None, unjudged, near, deviation.noisy)


def _odd_ones(got: Array, native: Array, reference: Array, odd: Array) -> tuple[Element, ...]:
    """Return the first elements whose NaN or infinity is wrong (at most `MOST_ODD`)."""
    if not odd.any():
        return ()
    with np.errstate(all="ignore"):
        perfect = reference.astype(got.dtype).astype(np.float64)
    shape = odd.shape
    some = [tuple(int(i) for i in np.unravel_index(int(at), shape)) for at in np.flatnonzero(odd)[:MOST_ODD]]
    return elements(perfect, got, some, native)


def _nonfinite(name: str, got: Array, native: Array, reference: Array, odd: Array) -> Evidence:
    seen = _odd_ones(got, native, reference, odd)
    dtype = got.dtype.name
    return Evidence(
        output=name,
        dtype=dtype,
        elements=got.size,
        wrong=int(odd.sum()),
        wrong_nonfinite=int(odd.sum()),
        worst=seen[:KEPT],
        faults=faults_of(seen, dtype),
        regions=regions_of(odd),
        narrower=narrower_than(seen[0], dtype),
    )


def _near_miss(
    name: str, value: Array, native: Array, shadow: Shadowed, deviation: Deviation, own: Deviation
) -> Evidence:
    """Return evidence of how close an output came to a finding, with the element that came closest."""
    place, reference = deviation.place, shadow.reference
    with np.errstate(all="ignore"):
        eager = float(np.abs(native.astype(np.float64)[place] - reference[place])) if reference.size else 0.0
    return Evidence(
        output=name,
        worst=elements(reference, value, [place], native, deviation.sigmas) if reference.size else (),
        z=max(deviation.element, deviation.aggregate * ELEMENT_LIMIT / AGGREGATE_LIMIT),
        element_z=deviation.element,
        aggregate_z=deviation.aggregate,
        direction=deviation.direction,
        error=deviation.error,
        sigma=deviation.sigma,
        native_z=eager / deviation.sigma if deviation.sigma else 0.0,
        native_worst_z=own.element,
        runs=shadow.samples.shape[0],
        totals=deviation.totals,
    )


def _near(found: Evidence) -> float:
    return -1.0 if found.z is None else found.z


def _with_severity(finding: WrongOutput | None, worst_case: float) -> WrongOutput | None:
    """Mark a wrong element as certain if its error exceeds even the sum of all possible rounding errors of the
    graph."""
    if finding is None or finding.kind is not Kind.WRONG_VALUE or finding.evidence.element_z is None:
        return finding
    certain = finding.evidence.element_z > worst_case > 0
    return replace(finding, evidence=replace(finding.evidence, certain=certain, worst_case=worst_case))


def _is_unmodelled(found: WrongOutput) -> bool:
    """True if the unoptimised run is itself beyond the limit and the output's error is at most `UNMODELLED` times
    larger. The noise model does not cover such a program."""
    if found.kind not in (Kind.WRONG_VALUE, Kind.BIAS):
        return False
    own = found.evidence.native_worst_z or 0.0
    return own > ELEMENT_LIMIT and (found.evidence.z or 0.0) <= UNMODELLED * own
