"""Decides whether a compiler is wrong, or the kernels that it calls. torch compilers call eager's kernels and its
libraries.

The reference of torch programs runs without oneDNN, and hunts leave eager out, so a wrong eager kernel shows first in a
compiler that calls it. Two failures are the same if both end with the same error, or if each of the most wrong elements
of one is as wrong in the other.
"""

from __future__ import annotations

import math
from dataclasses import replace

from driftline.core.evidence import Element
from driftline.core.execution import Execution
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.oracle.judge import Reference, ReferenceSample

_ENDINGS = (Kind.ERROR, Kind.CRASH, Kind.MISSING_ERROR)
_OF_NUMBERS = (Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.WRONG_ZERO_SIGN)
_NEAR = 1 / 16  # share of the error: two wrong numbers at most this far apart are equally wrong


def same_failure(first: Verdict, execution: Execution, other: Verdict, by_kernels: Execution) -> bool:
    """True if the kernels by themselves fail in the same way as the compiler."""
    if other.judgement is not Judgement.FAIL or other.kind is not first.kind:
        return False
    if first.kind in _ENDINGS:
        told, found = first.evidence, other.evidence
        return (told.exception, told.message, told.signal) == (found.exception, found.message, found.signal)
    if first.kind not in _OF_NUMBERS or not first.evidence.worst:
        return True
    sample, output = first.evidence.sample or 0, first.evidence.output
    if sample >= min(len(execution.outputs), len(by_kernels.outputs)):
        return False
    mine, theirs = execution.outputs[sample], by_kernels.outputs[sample]
    return all(_as_wrong(element, output, mine, theirs) for element in first.evidence.worst)


def in_place_of(reference: Reference, by_kernels: Execution) -> Reference:
    """Return the reference with the kernels' results as the expected ones; a target that is also wrong elsewhere
    differs from it."""
    pairs = zip(reference.samples, by_kernels.outputs, strict=False)
    samples = tuple(ReferenceSample(native=outputs, inputs=sample.inputs) for sample, outputs in pairs)
    return replace(reference, samples=samples)


def _as_wrong(element: Element, output: str, mine: Arrays, theirs: Arrays) -> bool:
    """True if both have the same wrong number at this element."""
    if output not in mine or output not in theirs or mine[output].shape != theirs[output].shape:
        return False
    if len(element.place) != mine[output].ndim:
        return False
    got, also = complex(mine[output][element.place]), complex(theirs[output][element.place])
    return all(
        _alike(one, another, wanted)
        for one, another, wanted in ((got.real, also.real, element.expected), (got.imag, also.imag, element.expected))
    )


def _alike(one: float, another: float, expected: float) -> bool:
    if math.isnan(one) or math.isnan(another):
        return math.isnan(one) and math.isnan(another)
    if one == another or math.isinf(one) or math.isinf(another):
        return one == another and math.copysign(1, one) == math.copysign(1, another)
    return bool(abs(one - another) <= _NEAR * abs(one - float(expected)))
