"""Special inputs hold what they promise, however small the tensor."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from driftline.core.tensors import TensorSpec
from driftline.inputs.make import random_inputs, special_inputs


@given(st.integers(0, 1000), st.sampled_from(["float32", "float16", "bfloat16", "float64"]))
def test_nan_and_infinity_are_always_there(seed: int, dtype: str) -> None:
    spec = TensorSpec("x", dtype, (5,))
    values = special_inputs([spec], {}, seed, tame=False).arrays["x"].astype(np.float64)
    assert np.isnan(values).any() and np.isposinf(values).any() and np.isneginf(values).any()
    assert np.isfinite(values).any()


@given(st.integers(0, 1000))
def test_integers_stay_in_the_range_of_the_example_unless_they_may_be_wild(seed: int) -> None:
    spec = TensorSpec("i", "int64", (64,))
    example = {"i": np.array([2, 9])}
    for inputs in (random_inputs([spec], {}, seed), special_inputs([spec], {}, seed, tame=True)):
        assert inputs.arrays["i"].min() >= 0 and inputs.arrays["i"].max() <= 7
    assert special_inputs([spec], {}, seed, tame=False).arrays["i"].min() == np.iinfo(np.int64).min
    drawn = random_inputs([TensorSpec("i", "int64", (2,))], example, seed).arrays["i"]
    assert drawn.min() >= 2 and drawn.max() <= 9


def test_the_same_seed_gives_the_same_inputs() -> None:
    specs = [TensorSpec("x", "float32", (3, 4)), TensorSpec("b", "bool", (5,))]
    first, second = (special_inputs(specs, {}, 7, tame=False).arrays for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
