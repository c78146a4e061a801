"""Explain a failure by less precise arithmetic: which policies are plausible, and which of them make the outputs legal.

A policy is tried on recorded outputs: the shadow is asked again, but the target does not run again. The list of
plausible policies is short on purpose, because a policy that the target cannot be using would only hide a bug.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from driftline.core.execution import Execution
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.oracle.arithmetic import declared, has_subnormals
from driftline.oracle.judge import OF_PRECISION, NoShadow, Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.rule import QUICK_RUNS

MOST_UNJUDGED = 0.1  # share of elements: with more unjudged under a policy, it explains nothing
HELPS = 0.8  # a policy that leaves more than this share of the deviation is not the cause

MORE_DIGITS = 2.0**-30  # relative: float32, which rounds to 2**-24, gets this close only by chance
TELLING = 4  # this many numbers, all that close, are no chance

_HALF = ("float16", "bfloat16")
# Phrases for a target with each policy: what it may do, and what it does.
_WORDS = {
    "half-accumulation": ("accumulate in {half}", "accumulates in {half}"),
    "tf32": ("multiply float32 matrices in TF32", "multiplies float32 matrices in TF32"),
    "double-as-single": ("compute float64 in float32", "computes float64 in float32"),
    "flush-to-zero": ("take subnormal numbers for zero", "takes subnormal numbers for zero"),
    "requantise": ("re-quantise one quantum off", "re-quantises up to one quantum off"),
    "requantise-2": ("re-quantise two quanta off", "re-quantises up to two quanta off"),
    "fast-exp": ("be off by some units in exp, tanh and the like", "is off by some units in exp, tanh and the like"),
}


def may(policies: Iterable[str], uses: Iterable[str] = _HALF[:1]) -> str:
    """Return a phrase for what the policies allow a target to do, such as "accumulate in float16"."""
    return " and ".join(_WORDS[name][0].format(half=_half(uses)) for name in policies)


def does(policies: Iterable[str], uses: Iterable[str] = _HALF[:1]) -> str:
    """Return a phrase for what a target with these policies does, such as "accumulates in float16"."""
    return " and ".join(_WORDS[name][1].format(half=_half(uses)) for name in policies)


def _half(uses: Iterable[str]) -> str:
    return " and ".join(name for name in _HALF if name in set(uses)) or "half precision"


def program_uses(reference: Reference, arithmetic: str) -> set[str]:
    """Return the float types and kinds of operations that the program's shadow reports, or an empty set without a
    shadow."""
    for sample in reference.samples:
        if sample.shadow is not None and sample.failure is None:
            try:
                return set(sample.shadow(arithmetic, QUICK_RUNS, None).uses)
            except NoShadow:
                return set()
    return set()


def plausible(uses: set[str], reference: Reference, arithmetic: str, *, on_gpu: bool) -> list[str]:
    """Return the policies that may apply to this program, the common ones first, without those the target declares
    already."""
    subnormals = "subnormal" in uses or any(
        has_subnormals({**sample.inputs, **sample.native}) for sample in reference.samples
    )
    rules = {
        "half-accumulation": not uses.isdisjoint(_HALF),
        "tf32": on_gpu and "float32" in uses,
        "double-as-single": not uses.isdisjoint(("float64", "complex128")),
        "fast-exp": "exponential" in uses,
        "flush-to-zero": subnormals,
        "requantise": "quantised" in uses,
        "requantise-2": "quantised" in uses,
    }
    return [
        name for name, holds in rules.items() if holds and declared(name + "+" + arithmetic) != declared(arithmetic)
    ]


def explained_by(
    verdict: Verdict, execution: Execution, reference: Reference, trait: TargetTraits, candidates: Sequence[str]
) -> tuple[str, ...]:
    """Return the policies under which the recorded outputs are legal: one policy if possible, else a pair, else an
    empty tuple."""
    before = _deviation(verdict)
    helping = []
    for name in candidates:
        again = agrees_with((name,), verdict, execution, reference, trait)
        if again.judgement is Judgement.PASS:
            return (name,)
        if again.kind is Kind.WRONG_NONFINITE or _deviation(again) < HELPS * before:
            helping.append(name)
    for pair in combinations(helping, 2):
        if {"requantise", "requantise-2"} <= set(pair):
            continue
        if agrees_with(pair, verdict, execution, reference, trait).judgement is Judgement.PASS:
            return pair
    return ()


def agrees_with(
    policies: Sequence[str], verdict: Verdict, execution: Execution, reference: Reference, trait: TargetTraits
) -> Verdict:
    """Judge the recorded outputs under these policies and return the verdict. A pass is returned only if most elements
    of the sample that failed were judged; otherwise the given verdict is returned."""
    if not is_of_precision(verdict, trait):
        return verdict
    failed = verdict.evidence.sample or 0
    if "double-as-single" in policies and _has_doubles(verdict, execution.outputs[failed], reference.samples[failed]):
        return verdict
    wider = replace(trait, arithmetic="+".join(filter(None, (trait.arithmetic, *policies))))
    again = judge(execution, reference, wider)
    if again.judgement is not Judgement.PASS:
        return again
    alone = judge(
        replace(execution, outputs=(execution.outputs[failed],)),
        replace(reference, samples=(reference.samples[failed],)),
        wider,
    )
    total = max(alone.evidence.elements, 1)
    judged = alone.judgement is Judgement.PASS and alone.evidence.unjudged <= MOST_UNJUDGED * total
    return again if judged else verdict


def _has_doubles(verdict: Verdict, outputs: Arrays, sample: ReferenceSample) -> bool:
    """True if the failed output has float64 accuracy wherever float32 can hold the number. Such an output was not
    computed in float32, so that policy does not explain the failure."""
    got, right = outputs.get(verdict.evidence.output), (sample.exact or {}).get(verdict.evidence.output)
    if got is None or right is None or got.dtype != np.float64 or right.shape != got.shape:
        return False
    with np.errstate(all="ignore"):
        size, single = np.abs(right), right.astype(np.float32)
        telling = np.isfinite(single) & (size >= np.finfo(np.float32).tiny) & (single != right)
        exact = np.abs(got - right) <= MORE_DIGITS * size
    return bool(telling.sum() >= TELLING and exact[telling].all())


def is_of_precision(verdict: Verdict, trait: TargetTraits) -> bool:
    """True if another arithmetic could explain the verdict: a failure of precision, not judged by a plain tolerance."""
    return verdict.judgement is Judgement.FAIL and verdict.kind in OF_PRECISION and trait.tolerance is None


def _deviation(verdict: Verdict) -> float:
    if verdict.judgement is not Judgement.FAIL:
        return 0.0
    found = verdict.evidence
    return next((z for z in (found.z, found.pooled_z) if z is not None), float("inf"))
