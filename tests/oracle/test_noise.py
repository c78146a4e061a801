"""Errors that are drawn block by block are those that are drawn at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from driftline.oracle import noise
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.noise import NoiseSource, transposed_terms


@pytest.mark.parametrize("on_grid", [False, True])
def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, on_grid: bool) -> None:
    result = np.random.default_rng(0).standard_normal((7, 101))
    size = np.abs(result) * 1e-6
    result[1, 1], size[2, 2], size[3, :5] = np.inf, np.nan, 3.0  # beyond the range, overflown on the way, vanishing

    def drawn(block: int) -> np.ndarray:
        monkeypatch.setattr(noise, "BLOCK", block)
        return NoiseSource(5, Arithmetic(), on_grid=on_grid).disturb(result, size, "float32")

    whole = drawn(1 << 20)
    assert not np.array_equal(whole, result)
    np.testing.assert_array_equal(drawn(64), whole)


@pytest.mark.parametrize(
    ("groups", "stride", "dilation"), [(1, 1, 1), (2, 1, 1), (3, 2, 1), (1, 2, 2), (2, 4, 6), (1, 3, 2)]
)
def test_the_products_of_a_transposed_convolution_are_counted(groups: int, stride: int, dilation: int) -> None:
    """As many as ones come to. Counting those of other groups took equal terms for unequal ones."""
    weight = torch.ones(6, 2, 5)
    made = torch.nn.functional.conv_transpose1d(
        torch.ones(1, 6, 20), weight, groups=groups, stride=stride, dilation=dilation
    )
    assert transposed_terms(weight.shape, groups, [stride], [dilation]) == made.max()
