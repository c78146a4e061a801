"""Measure the error of a value against the reference, in units of legal rounding there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from driftline.core.tensors import Array, is_float
from driftline.oracle.arithmetic import declared
from driftline.oracle.judge import AskArithmetic, NoShadow
from driftline.oracle.outputs import ShadowAnswer, judge_all
from driftline.oracle.rule import FULL_RUNS, QUICK_LIMIT, QUICK_RUNS
from driftline.oracle.statistics import ELEMENT_LIMIT, Noise, rms_error

QUANTISED = "quantised"  # the word with which a shadow says that it uses quantisation
STEPS = {1: "requantise", 2: "requantise-2"}  # quanta: the arithmetic that declares them
SURELY = 64.0  # sigma by a few samples: more samples would not bring it back into the band


@dataclass(frozen=True)
class Errors:
    """The error of one value. `sigma` is the worst element (or bias, on the same scale), None if it is not known."""

    sigma: float | None = None
    rms: float | None = None
    relative: float | None = None  # rms of the error over rms of the value
    beyond: bool = False
    what: str = ""  # why it is beyond the band or was not judged, or the condition under which it is within
    quanta: int = 0  # it is within the band where quantised values may come out so many quanta off


def measure_all(
    got: dict[str, Array],
    native: dict[str, Array],
    ask: AskArithmetic | None,
    arithmetic: str,
    *,
    quanta: bool = False,
) -> dict[str, Errors]:
    """Measure the errors of several values of one run, by name.

    More samples are drawn only if a few leave open whether a value is within the band. With `quanta`, a value beyond
    the band is also compared with the band of kernels that re-quantise some quanta off: a quantised value has no noise
    of its own, so one step would be beyond any band.
    """
    fine = {name for name in native if name in got and _same_form(got[name], native[name])}
    found = {name: _misformed(got.get(name), native[name]) for name in native if name not in fine}
    if ask is None:
        return found | {n: Errors(relative=_relative(got[n], native[n].astype(np.float64))) for n in fine}
    try:
        quick = ask(arithmetic, QUICK_RUNS, {})
        found |= {name: _measured(name, got[name], native[name], quick, arithmetic) for name in fine}
        open_ = [n for n in fine if (s := found[n].sigma) is not None and QUICK_LIMIT <= s <= SURELY]
        if open_:
            full = ask(arithmetic, FULL_RUNS, {})
            found |= {name: _measured(name, got[name], native[name], full, arithmetic) for name in open_}
        if quanta and QUANTISED in quick.uses:
            found |= _within_steps(got, native, ask, arithmetic, [n for n in fine if found[n].beyond])
    except NoShadow as reason:
        told = f"the rounding noise could not be found out: {reason}"
        found |= {n: Errors(relative=_relative(got[n], native[n].astype(np.float64)), what=told) for n in fine}
    return found


def _within_steps(
    got: dict[str, Array], native: dict[str, Array], ask: AskArithmetic, arithmetic: str, beyond: Sequence[str]
) -> dict[str, Errors]:
    """Return the errors of the values that legal steps of re-quantisation bring into the band; fewer quanta are tried
    first.
    """
    found: dict[str, Errors] = {}
    for quanta, policy in STEPS.items():
        left = [name for name in beyond if name not in found]
        if not left:
            break
        stepping = f"{arithmetic}+{policy}" if arithmetic else policy
        answer = ask(stepping, QUICK_RUNS, {})
        measured = {name: _measured(name, got[name], native[name], answer, stepping) for name in left}
        told = f"within the band if quantised values may come out {'one quantum' if quanta == 1 else 'two quanta'} off"
        # Sigma would refer to the wider band, unlike that of all other values.
        within = {n: e for n, e in measured.items() if not e.beyond}
        found |= {n: replace(e, sigma=None, rms=None, what=told, quanta=quanta) for n, e in within.items()}
    return found


def _same_form(got: Array, native: Array) -> bool:
    same = got.dtype == native.dtype or (is_float(got.dtype.name) and is_float(native.dtype.name))
    return got.shape == native.shape and same


def _misformed(got: Array | None, native: Array) -> Errors:
    if got is None:
        return Errors(what="the target did not return it")
    return Errors(beyond=True, what=f"is {got.dtype}{list(got.shape)}, expected {native.dtype}{list(native.shape)}")


def _measured(name: str, given: Array, native: Array, answer: ShadowAnswer, arithmetic: str) -> Errors:
    rules = declared(arithmetic)
    got = given.astype(native.dtype, copy=False)
    if name not in answer.reference or answer.reference[name].shape != native.shape:
        return Errors(relative=_relative(got, native.astype(np.float64)), what="its size depends on rounding")
    reference = answer.reference[name]
    judged = judge_all({name: got}, {name: native}, answer, rules)
    evidence = judged.finding.evidence if judged.finding else judged.closest
    sigma = evidence.z
    if sigma is None and judged.finding is None:
        sigma = 0.0  # equal to the unoptimised run
    with np.errstate(invalid="ignore"):  # a mask has infinities, and their differences are none
        noise = Noise(reference, answer.samples[name] - reference, answer.low[name], answer.high[name])
    rms = rms_error(got.astype(np.float64), noise, native.dtype.name, rules) if is_float(native.dtype.name) else None
    what = judged.finding.reason if judged.finding else ""
    if not what and judged.unjudged == native.size and native.size:
        sigma, what = None, "too ill-conditioned to be judged"
    return Errors(sigma, rms, _relative(got, reference), judged.finding is not None, what)


def _relative(got: Array, reference: Array) -> float:
    with np.errstate(all="ignore"):
        value, error = reference, got.astype(np.float64) - reference
        seen = np.isfinite(error)
        size = float(np.sqrt(np.mean(np.square(value[seen])))) if seen.any() else 0.0
        off = float(np.sqrt(np.mean(np.square(error[seen])))) if seen.any() else 0.0
    return off / size if size > 0 else 0.0


BAND = ELEMENT_LIMIT
