"""Chooses special inputs whose results can be compared: strong ones first, milder ones if the whole result becomes NaN.

The reference decides. In a small program all inputs may hold special numbers, and a result that is all NaN is kept,
since compilers may lose NaNs; a milder sample is added. In a model every result depends on all inputs, so only single
elements are special, and a sample whose results cannot be compared is replaced.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from driftline.checking.checker import Checker
from driftline.checking.deployed import fitting
from driftline.core.case import Case, Inputs
from driftline.core.tensors import is_float
from driftline.inputs.make import InputMaker
from driftline.inputs.sprinkle import Strength, special_inputs
from driftline.oracle.judge import Reference, ReferenceSample

LARGE = 40  # from this many operators or layers on, a program counts as a model
ENOUGH = 0.2  # the share of a result that must be finite
NO_SPECIALS = "No special floats (NaN, infinities, signed zeros) were placed: the program has no float inputs."


def with_specials(checker: Checker, case: Case, maker: InputMaker, count: int) -> tuple[Case, Reference]:
    """Return the case with at least `count` samples that hold special numbers, and the reference results on them."""
    seed, small = case.options.seed, maker.known.size < LARGE
    wanted = list(range(count))
    kept: list[tuple[Inputs, ReferenceSample]] = []
    reference = Reference()
    for strength in tuple(Strength) if small else (Strength.SINGLE, Strength.MILD):
        samples = tuple(special_inputs(maker, seed + i, strength, i) for i in wanted)
        if case.deployed:
            samples = fitting(case.deployed, samples)
        reference = checker.reference(replace(case, samples=samples))
        if reference.problem or len(reference.samples) != len(samples):
            return replace(case, samples=samples), reference
        again = []
        last = strength is Strength.MILD
        for number, sample, meant in zip(wanted, samples, reference.samples, strict=True):
            telling = _tells(meant)
            if telling or last or (small and meant.failure is None):
                kept.append((sample, meant))
            if not telling:
                again.append(number)
        wanted = again
        if not wanted:
            break
    samples = tuple(sample for sample, _ in kept)
    return replace(case, samples=samples), replace(reference, samples=tuple(meant for _, meant in kept))


def _tells(meant: ReferenceSample) -> bool:
    """True if enough of the reference's results are finite to compare."""
    if meant.failure:
        return False
    floats = [array for array in meant.native.values() if is_float(array.dtype.name) and array.size]
    if not floats or len(floats) < len(meant.native):
        return True
    finite = sum(int(np.isfinite(array.astype(np.float64)).sum()) for array in floats)
    return finite >= ENOUGH * sum(array.size for array in floats)
