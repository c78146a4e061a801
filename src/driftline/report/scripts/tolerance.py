"""Choose the tolerance of a script: larger than rounding can move a result, and smaller than the error of the bug.

The numbers follow from the evidence: how far legal rounding moves the wrong element, how far off the compiler is, and,
if known, how far the unoptimised program is from the correctly rounded results. The default tolerance of torch's own
tests is used if it lies between, since maintainers know it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from driftline.core.tensors import Array, is_float
from driftline.report.scripts.failure import ShownFailure

# torch.testing.assert_close: relative and absolute tolerance
DEFAULTS = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
_UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53, "complex128": 2.0**-53}
_SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float64": 2.0**-1074, "complex128": 2.0**-1074}
_UNIT, _TINY = 2.0**-24, 2.0**-149  # of float32
_OF_TORCH = "The defaults of torch.testing.assert_close; rounding stays below them."
LEGAL = 8.0  # times sigma: an element within that is never wrong (`oracle/statistics.py`)
CLEAR = 1.5  # times the tolerance: a smaller error cannot be distinguished from rounding


@dataclass(frozen=True)
class ScriptTolerance:
    """A tolerance and the origin of its numbers. `separates` is False if no tolerance lets correctly rounded results
    pass and still shows the bug.
    """

    rtol: float
    atol: float
    remark: str
    separates: bool = True

    @property
    def is_default(self) -> bool:
        return self.remark == _OF_TORCH

    @property
    def is_exact(self) -> bool:
        return not self.rtol and not self.atol

    @property
    def text(self) -> str:
        """The arguments of `isclose`."""
        return ", ".join(f"{name}={_short(value)}" for name, value in (("rtol", self.rtol), ("atol", self.atol)))


@dataclass(frozen=True)
class Margins:
    """The bounds of a tolerance: at the wrong element, whose expected value has the magnitude `size`, it must allow
    `noise` and not `error`. `apart` has the magnitudes of the expected results with their distances from the correctly
    rounded ones, which it must allow as well.
    """

    size: float
    noise: float
    error: float
    apart: tuple[tuple[Array, Array], ...] = ()

    def fits(self, rtol: float, atol: float) -> bool:
        """True if rounding stays within the tolerance everywhere, and the wrong element is clearly outside."""
        allowed = atol + rtol * self.size
        passes = all(bool((far <= atol + rtol * size).all()) for size, far in self.apart)
        return passes and self.noise <= allowed and self.error > CLEAR * allowed

    def most_apart(self) -> tuple[float, float]:
        """Return the largest relative and the largest absolute distance between expected and correctly rounded
        results.
        """
        relative = absolute = 0.0
        for size, far in self.apart:
            moved = far > 0
            if moved.any():
                with np.errstate(all="ignore"):
                    relative = max(relative, float((far[moved] / size[moved]).max()))
                absolute = max(absolute, float(far.max()))
        return relative, absolute


def tolerance(failing: ShownFailure) -> ScriptTolerance:
    """Return the simplest tolerance that lets rounding pass and shows the bug."""
    if not is_float(failing.dtype) and not failing.dtype.startswith("complex"):
        return ScriptTolerance(0.0, 0.0, "Exact: no rounding is involved.")
    default = ScriptTolerance(*DEFAULTS.get(failing.dtype, DEFAULTS["float32"]), _OF_TORCH)
    margins = _margins(failing)
    if not margins.error or margins.fits(default.rtol, default.atol):
        return default
    told = f"Rounding moves this element by {margins.noise:.1g} at most; the compiler is off by {margins.error:.2g}."
    for rtol, atol in _between(failing.dtype, margins):
        if margins.fits(rtol, atol):
            return ScriptTolerance(rtol, atol, told)
    bound = float(f"{margins.error / 2:.0e}") if math.isfinite(margins.error) else default.atol
    return ScriptTolerance(0.0, bound, f"{told} No tolerance tells the two apart.", separates=False)


def _margins(failing: ShownFailure) -> Margins:
    found = failing.evidence
    element = found.first
    size = abs(_number(element.expected)) if element else 0.0
    size = size if math.isfinite(size) else 0.0
    unit, tiny = _UNITS.get(failing.dtype, _UNIT), _SMALLEST.get(failing.dtype, _TINY)
    sigma = _number(found.sigma) or (_number(element.noise) if element and found.allowed is None else 0.0)
    noise = max(LEGAL * sigma + unit * size + tiny, _number(found.allowed))
    error = _number(found.error)
    if element and not error:
        error = abs(_number(element.expected) - _number(element.got))
    if element and element.unoptimised is not None:  # a script compares with the unoptimised program
        error = min(error, abs(_number(element.unoptimised) - _number(element.got)))
    return Margins(size, noise, error if math.isfinite(error) else math.inf, tuple(_apart(failing)))


def _apart(failing: ShownFailure) -> Iterator[tuple[Array, Array]]:
    expected, right = failing.of_wrong_output()
    for name, value in expected.items():
        other = right.get(name)
        if other is None or other.shape != value.shape or not _rounds(value):
            continue
        wide = np.complex128 if value.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            size, far = np.abs(value.astype(wide)), np.abs(value.astype(wide) - other.astype(wide))
        usual = np.isfinite(size) & np.isfinite(far)
        yield size[usual], far[usual]


def _between(dtype: str, margins: Margins) -> Iterator[tuple[float, float]]:
    """Yield tolerances to try, the simplest first: relative only, then with an absolute part, then absolute only."""
    unit, tiny = _UNITS.get(dtype, _UNIT), _SMALLEST.get(dtype, _TINY)
    relative, absolute = margins.most_apart()
    wanted = max(2 * unit, relative, margins.noise / margins.size if margins.size else 0.0)
    least = max(margins.noise, absolute)
    if math.isfinite(wanted):
        yield _one_digit_up(2 * wanted), 0.0
        yield _one_digit_up(wanted), 0.0
        yield _one_digit_up(wanted), _one_digit_up(2 * tiny)
    usual = _one_digit_up(4 * unit)
    yield usual, _one_digit_up(2 * least)
    yield usual, _one_digit_up(least)
    yield 0.0, _one_digit_up(least)


def _rounds(array: Array) -> bool:
    return is_float(array.dtype.name) or array.dtype.kind == "c"


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 0.0


def _short(value: float) -> str:
    return f"{value:g}".replace("e-0", "e-")


def _one_digit_up(value: float) -> float:
    """Round up to one significant digit."""
    if not value:
        return 0.0
    rounded = float(f"{value:.0e}")
    if rounded >= value:
        return rounded
    digit, exponent = f"{value:e}".split("e")
    return float(f"{int(float(digit)) + 1}e{exponent}")
