"""Specials that leave something to compare: strong ones first, milder ones where they turn the whole result into NaN.

The reference decides. In a small program special numbers stand everywhere, and a result that is all NaN is still worth
having, for compilers lose NaNs; a milder sample is added to it. In a model every result depends on all inputs: there,
specials stand in single places, and a sample that says nothing is replaced.
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

LARGE = 40  # operators or layers, from which on a program is taken for a model
ENOUGH = 0.2  # the share of a result that must be finite
NO_SPECIALS = "No special floats (NaN, infinities, signed zeros) were placed: the program has no float inputs."


def with_specials(checker: Checker, case: Case, maker: InputMaker, count: int) -> tuple[Case, Reference]:
    """The case with `count` samples or more that hold specials, and what the program means on them."""
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
    """Is there something to compare?"""
    if meant.failure:
        return False
    floats = [array for array in meant.native.values() if is_float(array.dtype.name) and array.size]
    if not floats or len(floats) < len(meant.native):
        return True
    finite = sum(int(np.isfinite(array.astype(np.float64)).sum()) for array in floats)
    return finite >= ENOUGH * sum(array.size for array in floats)
