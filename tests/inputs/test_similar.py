"""Fresh inputs keep scale, signs, range, zeros and kinds of integers of the example."""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import TensorSpec
from driftline.inputs.similar import similar_inputs


def like(example: np.ndarray, seed: int = 0) -> np.ndarray:
    return similar_inputs([TensorSpec("x", example.dtype.name, example.shape)], {"x": example}, seed).arrays["x"]


def test_floats_keep_scale_sign_and_range() -> None:
    example = np.random.default_rng(0).uniform(3e4, 5e4, (8, 16)).astype(np.float32)
    made = like(example)
    assert made.dtype == example.dtype and made.shape == example.shape
    assert example.min() <= made.min() and made.max() <= example.max()
    assert len(np.unique(made)) > 100 and not np.isin(made, example).all()
    assert (like(example, 1) != made).any()


def test_zeros_infinities_and_orders_stay() -> None:
    mask = np.where(np.tri(6, dtype=bool), 0.0, -np.inf).astype(np.float32)
    assert (like(mask) == mask).all()
    limits = np.linspace(-3, 3, 20, dtype=np.float32)
    assert (np.diff(like(limits)) >= 0).all()
    assert like(np.float32([2.5]))[0] == 2.5  # its range is this number


def test_integers_have_the_distribution_of_the_example() -> None:
    example = np.array([[7, 100, 7, 7], [7, 7, 100, 7]])
    made = like(example)
    assert set(np.unique(made)) <= {7, 100}
    assert like(np.arange(12)).tolist() == list(range(12))
