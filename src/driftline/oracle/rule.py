"""Decide whether outputs are wrong or only rounded differently.

The checks are ordered so that the common case is cheap: equal to the last bit; within one rounding of the float64
result; within a few sigma by eight samples; and a full comparison for what remains. In each comparison NaN and Inf are
checked first, element by element.

When many programs are judged, `sparing` adds two checks before the eight samples: one without samples, one with a few.
Neither passes anything that eight samples would not: their limit is lower by as much as a sum of fewer squares can be
too large. With S(k) the sum of the squared movements in the first k of the samples, an error e passes if e^2 < S(k)
times limit(k)^2 / k. That factor is the same for all k, and S(k) never shrinks as k grows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from driftline.core.tensors import Array, Arrays, is_float
from driftline.oracle.arithmetic import IEEE, Arithmetic
from driftline.oracle.outputs import JudgedOutputs as JudgedOutputs
from driftline.oracle.outputs import ShadowAnswer as ShadowAnswer
from driftline.oracle.outputs import judge_all
from driftline.oracle.specification import ROUNDING_DECIDES
from driftline.oracle.statistics import UNIFORM_RMS

FEW_RUNS = 4
QUICK_RUNS = 8
QUICK_LIMIT = 4.0
FULL_RUNS = 32
CLOSE = 1.0 + QUICK_LIMIT * UNIFORM_RMS  # in roundings of the result: the most that passes if nothing else rounds

AskShadow = Callable[[int, Arrays | None], ShadowAnswer]


def judge_outputs(
    got: Arrays,
    native: Arrays,
    exact: Arrays,
    ask: AskShadow,
    arithmetic: Arithmetic = IEEE,
    *,
    thorough: bool = False,
    sparing: bool = False,
) -> JudgedOutputs:
    """Judge outputs whose names, dtypes and shapes are already known to be right.

    `thorough` disables the shortcuts for results within one rounding: a smaller drift is visible only when many inputs
    are added up. `sparing` asks for a few samples first, for a shadow that caches its runs.
    """
    if all(got[name].tobytes() == value.tobytes() for name, value in native.items()):
        return JudgedOutputs()
    if not thorough:
        if all(_within(1.0, got[n], v, exact.get(n), arithmetic) for n, v in native.items()):
            return JudgedOutputs()
        if sparing and (passed := _spared(got, native, exact, ask, arithmetic)):
            return passed
    answer = ask(QUICK_RUNS, None)
    quick = judge_all(got, native, answer, arithmetic)
    # A difference that few runs excuse by the error of the unoptimised run may be found wrong with more runs. Few runs
    # also cannot tell whether an element that follows from a choice was only rounded.
    tossed = ROUNDING_DECIDES in quick.unspecified
    if quick.finding is None and (quick.closest.z or 0.0) < QUICK_LIMIT and not quick.excused and not tossed:
        return quick
    # Without choices to adopt, the answer is the same for all targets and is computed once.
    return judge_all(got, native, ask(FULL_RUNS, got if answer.choosing else None), arithmetic)


def _spared(got: Arrays, native: Arrays, exact: Arrays, ask: AskShadow, arithmetic: Arithmetic) -> JudgedOutputs | None:
    """Return the result if the outputs pass with the rounding of the last operation alone, or by a few samples; else
    `None`. Differences of the unoptimised run excuse nothing here."""
    if all(_within(CLOSE, got[n], v, exact.get(n), arithmetic) for n, v in native.items()):
        still = judge_all(got, native, _unmoved(exact), arithmetic, excuses=False)
        if still.finding is None and (still.closest.z or 0.0) < QUICK_LIMIT:
            return still
    answer = ask(FEW_RUNS, None)
    if answer.runs >= QUICK_RUNS:  # decisions need more than a few samples
        return None
    few = judge_all(got, native, answer, arithmetic, excuses=False)
    limit = QUICK_LIMIT * (answer.runs / QUICK_RUNS) ** 0.5
    # An element that is too noisy for a few samples may be judged by more.
    passes = few.finding is None and (few.closest.z or 0.0) < limit and not few.noisy
    return few if passes else None


def _unmoved(exact: Arrays) -> ShadowAnswer:
    """Return the answer of a shadow without rounding errors."""
    return ShadowAnswer(exact, {name: value[np.newaxis] for name, value in exact.items()}, exact, exact)


def _within(roundings: float, got: Array, native: Array, exact: Array | None, arithmetic: Arithmetic) -> bool:
    """True if every float lies within that many roundings of the float64 result, and every other value is equal."""
    if not is_float(got.dtype.name) or exact is None or exact.shape != got.shape:
        return got.tobytes() == native.tobytes()
    with np.errstate(all="ignore"):
        perfect = exact.astype(got.dtype).astype(np.float64)
        values = got.astype(np.float64)
        allowed = roundings * arithmetic.unit(got.dtype.name) * np.abs(exact)
        close = np.isfinite(exact) & (np.abs(values - exact) <= allowed)
        return bool(np.all(close | (values == perfect) | (np.isnan(values) & np.isnan(perfect))))
