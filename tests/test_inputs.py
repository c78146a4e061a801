"""Inputs of a check: special values where they are promised, and integers of the kind that the program takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.core.tensors import Array, TensorSpec
from driftline.inputs.like import rule_of
from driftline.inputs.make import InputMaker, random_inputs
from driftline.inputs.sprinkle import Strength, special_inputs
from driftline.programs.known import Known


@given(st.integers(0, 1000), st.sampled_from(["float32", "float16", "bfloat16", "float64"]))
def test_nan_and_infinity_are_always_there(seed: int, dtype: str) -> None:
    maker = InputMaker((TensorSpec("x", dtype, (5,)),), {})
    values = special_inputs(maker, seed, Strength.EVERYWHERE).arrays["x"].astype(np.float64)
    assert np.isnan(values).any() and np.isposinf(values).any() and np.isneginf(values).any()
    assert np.isfinite(values).any()


@given(st.integers(0, 1000))
def test_integers_stay_in_the_range_of_the_example_unless_they_may_be_wild(seed: int) -> None:
    maker = InputMaker((TensorSpec("i", "int64", (64,)),), {})
    for inputs in (maker.random(seed, 0), special_inputs(maker, seed, Strength.EVERYWHERE)):
        assert inputs.arrays["i"].min() >= 0 and inputs.arrays["i"].max() <= 7
    assert special_inputs(maker, seed, Strength.WILD).arrays["i"].min() == np.iinfo(np.int64).min
    drawn = random_inputs([TensorSpec("i", "int64", (2,))], {"i": np.array([2, 9])}, seed).arrays["i"]
    assert drawn.min() >= 2 and drawn.max() <= 9


@given(st.integers(0, 1000), st.sampled_from(list(Strength)))
def test_what_the_graph_takes_for_an_index_is_one_whatever_is_drawn(seed: int, strength: Strength) -> None:
    known = Known(rules={"ids": "index:50", "mask": "mask"})
    maker = InputMaker((TensorSpec("ids", "int64", (2, 6)), TensorSpec("mask", "int64", (2, 6))), {}, known)
    arrays = special_inputs(maker, seed, strength).arrays
    assert arrays["ids"].min() >= 0 and arrays["ids"].max() < 50
    assert arrays["mask"].any(axis=-1).all() and set(np.unique(arrays["mask"])) == {0, 1}


@given(st.integers(0, 1000), st.sampled_from([Strength.SINGLE, Strength.MILD]))
def test_single_specials_leave_the_first_of_the_batch_and_the_other_inputs_alone(seed: int, strength: Strength) -> None:
    maker = InputMaker((TensorSpec("x", "float32", (2, 4, 8)), TensorSpec("y", "float32", (2, 8))), {})
    plain, special = maker.random(seed, 0).arrays, special_inputs(maker, seed, strength).arrays
    changed = {name: ~((plain[name] == special[name]) | np.isnan(plain[name])) for name in plain}
    touched = [name for name in changed if changed[name].any()]
    assert len(touched) == 1 and not changed[touched[0]][0].any() and changed[touched[0]].sum() <= 3
    assert strength is Strength.SINGLE or all(np.isfinite(array).all() for array in special.values())


@pytest.mark.parametrize(
    ("example", "rule"),
    [
        (np.array([[1, 1, 1], [1, 1, 0]]), "mask"),
        (np.ones((2, 3), np.int64), "mask"),
        (np.array([[True, True, False]] * 2), "mask"),
        (np.array([[False, False, True]] * 2), "padding"),
        (np.tril(np.ones((3, 3), bool)), "exact"),
        (np.array([[4, 5, 6], [4, 5, 6]]), "positions:4"),
        (np.zeros((2, 3), np.int64), "range:0:0"),
        (np.array([[0, 1, 0, 1]]), "flags"),
        (np.array([3, 9, 4]), "range:3:9"),
        (np.array([True, False, True]), "any"),
        (np.array([1.0, 0.0]), "any"),
    ],
)
def test_an_example_says_what_kind_of_integers_a_program_takes(example: Array, rule: str) -> None:
    assert rule_of(example) == rule
    spec = TensorSpec("x", example.dtype.name, example.shape)
    drawn = [random_inputs([spec], {"x": example}, seed).arrays["x"] for seed in range(20)]
    if example.dtype.kind == "i":
        assert all(rule_of(array).partition(":")[0] in (rule.partition(":")[0], "range", "mask") for array in drawn)


def test_the_same_seed_gives_the_same_inputs() -> None:
    maker = InputMaker((TensorSpec("x", "float32", (3, 4)), TensorSpec("b", "bool", (5,))), {})
    first, second = (special_inputs(maker, 7, Strength.WILD).arrays for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
