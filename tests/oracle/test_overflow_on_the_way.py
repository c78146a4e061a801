"""Programs without a shadow: what may come out where terms overflow before they are all added up."""

from __future__ import annotations

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
