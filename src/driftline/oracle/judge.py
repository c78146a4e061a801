"""Judge an execution: compare the results of a target with the reference and return a verdict.

The checks run in this order: how the execution ended, whether the reference raises, structure, dtype, shape, and last
the values (`compare.py`). The first failed check decides the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from driftline.core.evidence import NOTHING, Evidence, Fault
from driftline.core.execution import Execution, Failure, Outcome
from driftline.core.sentences import ended, failing, without_rule
from driftline.core.tensors import Array, Arrays, is_float
from driftline.core.text import first_line
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.oracle.arithmetic import declared, has_subnormals
from driftline.oracle.choice import Tolerance
from driftline.oracle.compare import QUANTA, SPREAD, STEPS, Expected, compare_values, flipped_zero
from driftline.oracle.rule import JudgedOutputs, ShadowAnswer, judge_outputs
from driftline.oracle.specification import CLAUSES
from driftline.oracle.statistics import POOLED_LIMIT, pooled
from driftline.oracle.time_out import judge_time_out

# Returns the shadow's answer for (declared arithmetic, runs, outputs whose choices to adopt).
AskArithmetic = Callable[[str, int, "Arrays | None"], ShadowAnswer]


class NoShadow(Exception):
    """Raised when the shadow could not be executed; the message says why."""


@dataclass(frozen=True)
class ReferenceSample:
    """The reference for one input sample: expected outputs, their rounding noise, or the error that the program
    raises."""

    native: Arrays = field(default_factory=dict)
    exact: Arrays | None = None
    spread: Arrays = field(default_factory=dict)
    failure: Failure | None = None
    refusal: Failure | None = None  # the framework's own error although the correct result is known
    note: str = ""
    seconds: float = 0.0  # duration of the native run
    shadow: AskArithmetic | None = None  # computes the rounding noise on demand
    sparing: bool = False  # ask the shadow for a few runs first
    inputs: Arrays = field(default_factory=dict)
    # Computes the reference for inputs with subnormal numbers set to zero; returns `None` if that is not possible.
    flushed: Callable[[], ReferenceSample | None] | None = None
    stored: Mapping[str, Arrays] = field(default_factory=dict)  # the spread where values are kept in fewer bits
    around: tuple[str, ...] = ()  # operators whose own kernels are the reference


@dataclass(frozen=True)
class Reference:
    """The reference for all samples. `problem` is nonempty, and gives the reason, if no reference could be computed."""

    samples: tuple[ReferenceSample, ...] = ()
    random: bool = False
    problem: str = ""
    by: str = ""  # the library that computed it, in words
    spent: bool = False  # the problem is that the limit of time or memory was reached


@dataclass(frozen=True)
class TargetTraits:
    """The properties of a target that the judge needs."""

    calls_user_code: bool  # same exceptions, same random numbers, same changes to inputs as the reference
    positional: bool  # outputs were renamed by a converter: compare by position
    signed_zero: bool = False
    arithmetic: str = ""  # the policies that the target declares, as in `oracle.arithmetic.declared`
    tolerance: Tolerance | None = None  # a plain tolerance in place of the rule
    draws_alone: bool = False  # its random numbers come from a generator of its own
    own_framework: bool = False  # runs the program itself, so it must also raise the reference's shape errors


_OF_VALUES = (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.WRONG_ZERO_SIGN)
# Shapes and types are known when a program is compiled. Errors that depend on values need not be raised by compiled
# code: a bad index, an integer divided by zero, a matrix that is not positive definite, a label out of range, an
# assertion.
_BY_SHAPE_OR_TYPE = re.compile(r"shape|rank|dimension|\bdims?\b|size|type|incompatible", re.IGNORECASE)
_BY_VALUE = re.compile(r"\bind(ex|ices)\b|out of (bounds|range)|assert", re.IGNORECASE)
OF_PRECISION = (Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE)  # failures that another arithmetic may explain
_ENDINGS = {
    Outcome.ERROR: Kind.ERROR,
    Outcome.CRASH: Kind.CRASH,
    Outcome.OOM: Kind.OOM,
}


def judge(execution: Execution, reference: Reference, trait: TargetTraits) -> Verdict:
    """Return the verdict on one execution."""
    if execution.problem:
        return _inconclusive(execution.problem)
    if execution.outcome is Outcome.REJECTED:
        return Verdict(Judgement.REJECTED, str(execution.failure or "not supported"))
    if reference.problem:
        return _inconclusive(f"no reference: {reference.problem}")
    if execution.outcome is not Outcome.OK:
        return _judge_ending(execution, reference, trait)
    if reference.random and (trait.draws_alone or not trait.calls_user_code):
        return _inconclusive("the program draws random numbers, and this compiler has a generator of its own")
    if not reference.samples or len(execution.outputs) != len(reference.samples):
        return _inconclusive("the reference has no result to compare with")
    return _naming_reference(_judge_samples(execution.outputs, reference.samples, trait), reference.by)


def _naming_reference(verdict: Verdict, by: str) -> Verdict:
    """Return the verdict with its sentence naming `by`, the library that computed the unoptimised run, where it is
    mentioned."""
    found = verdict.evidence
    if verdict.judgement is not Judgement.FAIL or verdict.kind is None or found.native_z is None or not by:
        return verdict
    return failing(verdict.kind, replace(found, native_by=by))


def _judge_ending(execution: Execution, reference: Reference, trait: TargetTraits) -> Verdict:
    failures = [s.failure or (s.refusal if trait.calls_user_code else None) for s in reference.samples]
    raised = next((failure for failure in failures if failure), None)
    if raised and execution.outcome is Outcome.ERROR:
        if trait.calls_user_code or trait.own_framework:
            return Verdict(
                Judgement.PASS, f"raises, as the reference does: {raised.type}: {first_line(raised.message)}"
            )
        return _inconclusive(f"the program itself raises {raised.type}: {raised.message}")
    if execution.outcome is Outcome.TIMEOUT:
        return judge_time_out(execution, sum(sample.seconds for sample in reference.samples))
    verdict = ended(_ENDINGS[execution.outcome], str(execution.stage), execution.failure, execution.log)
    if execution.taken_by:
        told = f"{verdict.reason} (refused as not supported, but {execution.taken_by} takes and runs it)"
        return replace(verdict, reason=told)
    return verdict


def _judge_samples(outputs: Sequence[Arrays], samples: Sequence[ReferenceSample], trait: TargetTraits) -> Verdict:
    """Judge all samples and combine their verdicts: the first failure wins; else a difference that the specification
    allows; else a pass. The result is inconclusive only if no sample could be judged."""
    verdicts: list[Verdict] = []
    thorough = len(samples) > 1
    for index, (got, sample) in enumerate(zip(outputs, samples, strict=True)):
        verdict = _judge_sample(got, sample, trait, thorough)
        flushes = verdict.kind in _OF_VALUES and declared(trait.arithmetic).flush_to_zero
        if flushes and has_subnormals(sample.inputs):
            verdict = _judge_flushed(got, sample, trait, thorough)
        if verdict.judgement is Judgement.FAIL:
            return replace(verdict, evidence=replace(verdict.evidence, sample=index))
        verdicts.append(verdict)
    z, direction = pooled([verdicts[index].evidence.totals for index in _distinct_inputs(samples)])
    if thorough and z > POOLED_LIMIT:  # a single input was judged by its own limit
        found = Evidence(pooled_z=z, direction=direction, runs=len(samples), faults=(Fault.NUMBER,))
        return failing(Kind.BIAS, found)
    told = next((v for v in verdicts if v.evidence.unspecified), None)
    return told or next((v for v in verdicts if v.judgement is Judgement.PASS), verdicts[0])


def _judge_flushed(got: Arrays, sample: ReferenceSample, trait: TargetTraits, thorough: bool) -> Verdict:
    """Judge `got` against the program's results for inputs whose subnormal numbers are replaced by zero.

    A subnormal input taken for zero may cause a large change, as in ceil. If `got` does not pass there either, the
    result is inconclusive, because the target may have replaced some inputs and not others.
    """
    flushed = sample.flushed() if sample.flushed else None
    verdict = _judge_sample(got, flushed, trait, thorough) if flushed else None
    if verdict and verdict.judgement is Judgement.PASS:
        return verdict
    return _inconclusive("an input is subnormal, which this compiler declares that it may take for zero")


def _distinct_inputs(samples: Sequence[ReferenceSample]) -> list[int]:
    """Return the indices of samples with distinct inputs. Equal inputs have equal errors, which must not be added
    up."""
    seen: dict[tuple[tuple[str, bytes], ...], int] = {}
    for index, sample in enumerate(samples):
        key = tuple((name, array.tobytes()) for name, array in sample.inputs.items())
        seen.setdefault(key or (("", str(index).encode()),), index)
    return list(seen.values())


def _is_of_the_program(failure: Failure) -> bool:
    """True if the error message refers to shapes or types, so that the program fails whatever the input values are."""
    told = failure.message
    return bool(_BY_SHAPE_OR_TYPE.search(told)) and not _BY_VALUE.search(told)


def _judge_sample(got: Arrays, sample: ReferenceSample, trait: TargetTraits, thorough: bool) -> Verdict:
    if sample.failure:
        if not trait.calls_user_code and not (trait.own_framework and _is_of_the_program(sample.failure)):
            return _inconclusive(f"the reference raises {sample.failure}")
        came = tuple(f"{name}: {array.dtype}{list(array.shape)}" for name, array in got.items())
        return failing(Kind.MISSING_ERROR, Evidence(wanted=(str(sample.failure),), came=came))
    expected = sample.native
    if not trait.calls_user_code:
        expected = {name: array for name, array in expected.items() if not name.startswith("mutated:")}
    if trait.positional and len(got) == len(expected):
        got = dict(zip(expected, got.values(), strict=True))
    # Where the unoptimised run has no gradient, a compiler may return zeros.
    got = {n: array for n, array in got.items() if n in expected or not n.startswith("grad:") or array.any()}
    if set(got) != set(expected):
        got, expected = _seen_to_change(got, expected, sample.inputs), _seen_to_change(expected, got, sample.inputs)
    if set(got) != set(expected):
        return _wrong_structure(got, expected)
    for name, native in expected.items():
        array = got[name]
        where = Evidence(output=name, dtype=native.dtype.name, elements=array.size)
        if array.dtype != native.dtype:
            told = replace(where, wanted=(str(native.dtype),), came=(str(array.dtype),))
            return failing(Kind.WRONG_DTYPE, told)
        if array.shape != native.shape:
            if array.ndim == native.ndim and _size_is_open(sample, trait, name):
                return _inconclusive("a size may follow from values, which are kept in fewer bits")
            told = replace(where, wanted=(str(list(native.shape)),), came=(str(list(array.shape)),))
            return failing(Kind.WRONG_SHAPE, told)
    if not expected:
        return _inconclusive("the program returns no tensor: there is nothing to compare")
    if trait.tolerance:
        return trait.tolerance.judge(got, expected)
    if sample.shadow and sample.exact is not None:
        return _judge_by_shadow({name: got[name] for name in expected}, expected, sample, trait, thorough)
    return _judge_by_spread(got, expected, sample, trait)


def _judge_by_shadow(
    got: Arrays, expected: Arrays, sample: ReferenceSample, trait: TargetTraits, thorough: bool
) -> Verdict:
    """Judge the outputs by the rounding noise that the shadow measures."""
    assert sample.shadow and sample.exact is not None
    floats = [name for name, array in expected.items() if is_float(array.dtype.name) and array.size]
    # A number where everything should be NaN is a failure; only NaN against NaN cannot be compared.
    blank = all(np.isnan(expected[name]).all() and np.isnan(got[name]).all() for name in floats)
    if floats and len(floats) == len(expected) and blank:
        reason = "the reference is NaN everywhere: there is nothing to compare"
        return Verdict(Judgement.INCONCLUSIVE, reason, evidence=Evidence(blank=True))
    ask = partial(sample.shadow, trait.arithmetic)
    try:
        judged = judge_outputs(
            got, expected, sample.exact, ask, declared(trait.arithmetic), thorough=thorough, sparing=sample.sparing
        )
    except NoShadow as error:
        return _inconclusive(f"the rounding noise could not be found out: {error}")
    if judged.finding:
        return failing(judged.finding.kind, replace(judged.finding.evidence, unruled=judged.unruled))
    if judged.unspecified:
        told = "; ".join(CLAUSES[clause].sentence for clause in judged.unspecified)
        reason = f"differs only where the specification leaves it open: {told}"
        return Verdict(Judgement.INCONCLUSIVE, reason, None, Evidence(unspecified=judged.unspecified))
    total = sum(array.size for array in expected.values())
    if total and judged.unjudged == total:
        return _inconclusive(f"no element could be judged: {_why_unjudged(judged)}")
    if trait.signed_zero and (flipped := flipped_zero(got, expected)):
        return failing(Kind.WRONG_ZERO_SIGN, flipped)
    reason = "agrees with the reference"
    if judged.outputs_unjudged:
        left = ", ".join(judged.outputs_unjudged)
        reason = (
            f"judged {len(expected) - len(judged.outputs_unjudged)} of {len(expected)} outputs, not {left}: {reason}"
        )
    if judged.unjudged:
        reason += f"; {judged.unjudged} of {total} elements {_why_unjudged(judged, several=True)}"
    if unruled := sorted({*judged.unruled, *sample.around}):
        reason += f"; {without_rule(unruled)}"
    near = replace(judged.closest, totals=dict(judged.totals), unjudged=judged.unjudged, elements=total)
    return Verdict(Judgement.PASS, reason, evidence=near)


def _why_unjudged(judged: JudgedOutputs, *, several: bool = False) -> str:
    if judged.excused:
        far = "the unoptimised run itself lies further off than the rounding of its operations explains"
        return f"not judged: {far}" if several else far
    return "too ill-conditioned to judge" if several else "the result is too ill-conditioned"


def _judge_by_spread(got: Arrays, expected: Arrays, sample: ReferenceSample, trait: TargetTraits) -> Verdict:
    """Judge programs without a shadow by how far their float64 result moves when the inputs are perturbed."""
    worst = NOTHING
    unjudged = total = 0
    left: list[str] = []  # outputs of which no element could be judged
    storage = declared(trait.arithmetic).storage
    if storage and storage not in sample.stored:
        return _inconclusive("how far off the result may be is not known for values that are kept in fewer bits")
    spread = _moved_by_storage(sample, storage) if storage else sample.spread
    for name, native in expected.items():
        array = got[name]
        if storage and name not in spread:  # an index or a boolean, which one quantum may change
            unjudged += array.size
            total += array.size
            left += [name] if array.size else []
            continue
        exact = sample.exact.get(name) if sample.exact else None
        if exact is not None and exact.shape != native.shape:
            exact = None
        side = Expected(native, exact, spread.get(name), sample.spread.get(STEPS + name), by_quanta=bool(storage))
        comparison = compare_values(array, side, trait.signed_zero)
        found = replace(comparison.evidence, output=name)
        if comparison.kind:
            return failing(comparison.kind, found)
        unjudged += comparison.unjudged
        left += [name] if 0 < array.size <= comparison.unjudged else []
        total += array.size
        if found.ratio is not None and found.ratio > (-1.0 if worst.ratio is None else worst.ratio):
            worst = found
    if total and unjudged == total:
        return _inconclusive("no element could be judged: the reference itself is not stable there")
    reason = "agrees with the reference" + (f"; {unjudged} of {total} elements not judged" if unjudged else "")
    if left:
        reason = f"judged {len(expected) - len(left)} of {len(expected)} outputs, not {', '.join(left)}: {reason}"
    if sample.note:
        reason += f"; {sample.note}"
    return Verdict(Judgement.PASS, reason, evidence=worst)


def _size_is_open(sample: ReferenceSample, trait: TargetTraits, name: str) -> bool:
    """True if a change by one quantum may alter the number of elements of the output, as in `tf.boolean_mask`. False
    where the reference kept that size when its values were stored in fewer bits."""
    storage = declared(trait.arithmetic).storage
    moved = sample.stored.get(storage, {}).get(name)
    return bool(storage) and (moved is None or bool(np.isinf(moved).all()))


def _moved_by_storage(sample: ReferenceSample, storage: str) -> Arrays:
    """Return how far storing values in fewer bits moves each output, or rounding alone where that is larger.

    Rounding can be the larger one, for example with float16 weights in a program that has no weights.
    """
    stored, rounding = sample.stored[storage], sample.spread
    return {
        name: np.fmax(moved, rounding[name] * (SPREAD / QUANTA)) if name in rounding else moved
        for name, moved in stored.items()
    }


def _seen_to_change(these: Arrays, others: Arrays, inputs: Arrays) -> Arrays:
    """Return `these` without inputs that are reported as changed only here and whose finite values are unchanged.
    Writing NaN or infinity over the same value cannot be seen as a change."""

    def seen(name: str, after: Array) -> bool:
        before = inputs.get(name.removeprefix("mutated:"))
        if name in others or not name.startswith("mutated:") or before is None or before.shape != after.shape:
            return True
        return bool((np.isfinite(before) & (after != before)).any()) if is_float(before.dtype.name) else True

    return {name: array for name, array in these.items() if seen(name, array)}


def _wrong_structure(got: Arrays, expected: Arrays) -> Verdict:
    return failing(Kind.WRONG_STRUCTURE, Evidence(wanted=tuple(sorted(expected)), came=tuple(sorted(got))))


def _inconclusive(reason: str) -> Verdict:
    return Verdict(Judgement.INCONCLUSIVE, reason)
