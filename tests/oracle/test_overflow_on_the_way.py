"""Programs without a shadow: what may come out where terms overflow before they are all added up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from driftline.core.tensors import Array, Arrays
from driftline.oracle.compare import Expected, compare_values
from driftline.oracle.reference import measure_spread


class SumOfProducts:
    """A product of matrices, added up from the first term to the last."""

    def native(self, arrays: Arrays) -> Arrays:
        x, w = arrays["x"], arrays["w"]
        total: Array = np.zeros((), dtype=x.dtype)
        with np.errstate(all="ignore"):
            for one, other in zip(x, w, strict=True):
                total = total + one * other
        return {"y": np.asarray([total], dtype=x.dtype)}

    exact = native


def finds(dtype: str, x: list[float], got: float) -> bool:
    arrays = {"x": np.array(x, dtype=dtype), "w": np.ones(len(x), dtype=dtype)}
    program = SumOfProducts()
    native = program.native(arrays)
    exact, spread, _ = measure_spread(program, arrays, native)
    assert exact is not None
    return compare_values(np.array([got], dtype=dtype), Expected(native["y"], exact["y"], spread["y"])).kind is not None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("got", [np.inf, -np.inf, np.nan])
def test_the_order_of_terms_decides_how_a_sum_overflows(dtype: str, got: float) -> None:
    large = float(np.finfo(dtype).max)
    assert not finds(dtype, [large, large, -large, -large, large, large], got)
    assert finds(dtype, [np.inf, large, 1.0], got) is not (got == np.inf)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ordinary_numbers_do_not_overflow(dtype: str) -> None:
    assert finds(dtype, [1.0, 2.0, 3.0], np.inf)
    assert finds(dtype, [1.0, np.inf, 3.0], np.nan)


def test_a_sum_beyond_the_range_is_never_a_number() -> None:
    """A clamped infinity is found, as long as a wider type says that there is no way around it."""
    large = float(np.finfo(np.float32).max)
    assert finds("float32", [large, large, 1.0], large)
    assert not finds("float64", [float(np.finfo(np.float64).max)] * 2 + [-1e308], 1.5e308)


class Elementwise:
    """No sum at all."""

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self._function = function

    def native(self, arrays: Arrays) -> Arrays:
        with np.errstate(all="ignore"):
            return {"y": self._function(arrays["x"])}

    exact = native


class RunningSum(Elementwise):
    """Of the shape of its input, and yet a sum."""

    def __init__(self) -> None:
        super().__init__(np.cumsum)


@pytest.mark.parametrize(
    ("program", "x", "got"),
    [
        (Elementwise(np.square), [1e30, 1.0], np.nan),
        (Elementwise(np.square), [1e30, 1.0], -np.inf),
        (Elementwise(lambda x: np.log(x.dtype.type(1e18) - x)), [1e20, 1.0], 46.0),
    ],
)
def test_an_element_that_overflows_by_itself_is_judged(program: Elementwise, x: list[float], got: float) -> None:
    arrays = {"x": np.array(x, dtype=np.float32)}
    native = program.native(arrays)
    exact, spread, _ = measure_spread(program, arrays, native)
    assert exact is not None
    outputs = native["y"].copy()
    outputs[0] = got
    assert compare_values(outputs, Expected(native["y"], exact["y"], spread["y"])).kind is not None


def test_a_running_sum_may_overflow_in_any_order() -> None:
    program, large = RunningSum(), float(np.finfo(np.float32).max)
    arrays = {"x": np.array([large, large, -large, -large], dtype=np.float32)}
    native = program.native(arrays)
    exact, spread, _ = measure_spread(program, arrays, native)
    assert exact is not None
    outputs = native["y"].copy()
    outputs[1:] = np.nan
    assert compare_values(outputs, Expected(native["y"], exact["y"], spread["y"])).kind is None


@pytest.mark.parametrize(("units", "wrong"), [(60, False), (100_000, True)])
def test_running_product_in_float64_has_a_rounding_for_each_factor(units: int, wrong: bool) -> None:
    """Without a run that is more precise than float64, the reference may be as far off as the result."""
    right = np.cumprod(np.linspace(1.1, 3, 65))
    got = right * (1 + units * 2.0**-53)
    assert (compare_values(got, Expected(right, right, np.zeros(65))).kind is not None) is wrong
