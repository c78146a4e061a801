"""compare_tensors: the numbers everybody knows, for every dtype and layout, without copying large tensors."""

from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import torch

from driftline import DriftlineError, compare_tensors


def test_integers_beyond_float64() -> None:
    metrics = compare_tensors(np.array([2**53]), np.array([2**53 + 1]))
    assert (metrics.mismatched, metrics.max_abs) == (1, 1.0)
    assert compare_tensors(np.array([-128], np.int8), np.array([127], np.int8)).max_abs == 255


def test_the_place_of_the_worst_in_a_strided_tensor() -> None:
    expected = np.zeros((700, 900), np.float32)
    actual = expected.copy()
    actual[123, 456] = 0.5
    metrics = compare_tensors(actual.T, expected.T)
    assert metrics.worst == (456, 123) and metrics.max_abs == 0.5 and metrics.mismatched == 1
    assert metrics.mean_abs == pytest.approx(0.5 / actual.size)
    assert metrics.rmse == pytest.approx(0.5 / actual.size**0.5)


def test_nan_and_inf() -> None:
    nan, inf = np.nan, np.inf
    metrics = compare_tensors(np.array([nan, inf, 1.0, nan, inf]), np.array([nan, inf, 2.0, 1.0, -inf]))
    assert metrics.nan == (2, 1) and metrics.inf == (2, 2)
    assert metrics.nonfinite_mismatched == 2 and metrics.mismatched == 3
    assert compare_tensors(np.array([nan, inf]), np.array([nan, inf])).equal


def test_units_in_the_last_place() -> None:
    one = np.array([1.0, -0.0], np.float32)
    metrics = compare_tensors(np.nextafter(one, 2, dtype=np.float32), one)
    assert metrics.max_ulp == 1
    eighth = np.array([1, 2], ml_dtypes.float8_e4m3fn)
    assert compare_tensors(eighth, eighth).equal
    assert compare_tensors(torch.tensor([1.0]).bfloat16(), torch.tensor([1.0078125]).bfloat16()).max_ulp == 1


def test_only_the_imaginary_part() -> None:
    metrics = compare_tensors(np.array([1 + 1j]), np.array([1 + 1.5j]))
    assert metrics.max_abs == 0.5 and not metrics.equal


def test_shapes_without_elements_or_dimensions() -> None:
    assert compare_tensors(np.zeros((0, 3)), np.zeros((0, 3))).equal
    assert compare_tensors(np.float64(1.0).reshape(()), np.zeros(())).worst == ()


def test_tolerances() -> None:
    actual, expected = np.array([1.001, 2.0, 3.0]), np.array([1.0, 2.0, 3.1])
    assert compare_tensors(actual, expected, rtol=1e-2).mismatched == 1
    assert compare_tensors(actual, expected, atol=0.2).mismatched == 0


def test_another_dtype_or_shape_is_refused() -> None:
    with pytest.raises(DriftlineError, match="one dtype and shape"):
        compare_tensors(np.zeros(2), np.zeros(3))


def test_memory_stays_flat() -> None:
    """Eight times the tensor, the same working memory."""
    peaks = []
    for rows in (1000, 8000):
        value = np.ones((rows, 1000), np.float16)
        tracemalloc.start()
        assert compare_tensors(value, value).equal
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
