"""Every strategy keeps the plan, whatever the dtype and shape, and gives the same numbers for the same seed."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.core.errors import DriftlineError
from driftline.core.tensors import DTYPES, FLOATS, Array, TensorSpec, is_float, numpy_dtype
from driftline.inputs.plan import InputPlan
from driftline.inputs.strategies import INPUTS

BUILTIN = ("random", "specials", "boundary")
SHAPES = ((), (0,), (1,), (5,), (3, 4), (2, 0, 3), (2, 1, 3))
INTEGERS = tuple(d for d in DTYPES if not is_float(d) and d != "bool" and not d.startswith("complex"))
EDGES = (0.0, 1.0, -7.5, 1e30)

names = st.sampled_from(BUILTIN)
seeds = st.integers(0, 100_000).map(str)
shapes = st.sampled_from(SHAPES)


def drawn(name: str, plan: InputPlan, seed: str) -> Array:
    inputs = INPUTS.get(name).draw([plan], seed, EDGES)
    assert name in inputs.origin and seed in inputs.origin
    array = inputs.arrays["x"]
    assert array.shape == plan.spec.shape and array.dtype == numpy_dtype(plan.spec.dtype)
    return array


@pytest.mark.filterwarnings("error::RuntimeWarning", "error::DeprecationWarning")  # of numpy
@given(names, st.sampled_from(DTYPES), shapes, seeds)
def test_any_tensor_can_be_filled(name: str, dtype: str, shape: tuple[int, ...], seed: str) -> None:
    plan = InputPlan(TensorSpec("x", dtype, shape))
    assert drawn(name, plan, seed).tobytes() == drawn(name, plan, seed).tobytes()


@given(names, st.sampled_from(INTEGERS), shapes, st.integers(1, 300), st.sampled_from(["index", "below"]), seeds)
def test_indices_stay_valid(name: str, dtype: str, shape: tuple[int, ...], n: int, rule: str, seed: str) -> None:
    array = drawn(name, InputPlan(TensorSpec("x", dtype, shape), f"{rule}:{n}"), seed)
    assert np.all((array >= 0) & (array < n))


@given(names, st.sampled_from(["int64", "int32"]), shapes, st.integers(1, 300), seeds)
def test_wrapped_indices_stay_valid(name: str, dtype: str, shape: tuple[int, ...], n: int, seed: str) -> None:
    array = drawn(name, InputPlan(TensorSpec("x", dtype, shape), f"wrapped:{n}"), seed)
    assert np.all((array >= -n) & (array < n))


@given(names, st.sampled_from([(5,), (3, 4), (0,), (2, 0)]), st.integers(5, 9), seeds)
def test_distinct_indices_are_distinct(name: str, shape: tuple[int, ...], n: int, seed: str) -> None:
    array = drawn(name, InputPlan(TensorSpec("x", "int64", shape), f"distinct:{n}"), seed)
    assert np.all((array >= 0) & (array < n))
    assert np.all(np.diff(np.sort(array, axis=-1), axis=-1) > 0)


@given(names, st.sampled_from((*FLOATS, "int8", "uint64", "bool", "complex64")), shapes, seeds)
def test_signs_and_zeros_are_respected(name: str, dtype: str, shape: tuple[int, ...], seed: str) -> None:
    spec = TensorSpec("x", dtype, shape)
    wide = "complex128" if dtype.startswith("complex") else "float64"
    assert np.all(drawn(name, InputPlan(spec, "positive"), seed).astype(wide).real > 0)
    assert np.all(drawn(name, InputPlan(spec, "nonzero"), seed).astype(wide) != 0)
    unit = drawn(name, InputPlan(spec, "unit"), seed).astype(wide)
    assert np.all((unit.real >= 0) & (unit.real <= 1) & (unit.imag == 0))


@given(names, st.sampled_from(["int64", "uint8", "bool"]), seeds)
def test_integers_like_the_example_stay_in_its_range(name: str, dtype: str, seed: str) -> None:
    example = np.array([0, 1, 1] if dtype == "bool" else [3, 9, 5]).astype(dtype)
    array = drawn(name, InputPlan(TensorSpec("x", dtype, (3,)), "like", example), seed)
    assert example.min() <= array.min() and array.max() <= example.max()


@given(names, st.sampled_from(["float32", "bfloat16", "complex64"]), seeds)
def test_floats_like_the_example_are_the_example(name: str, dtype: str, seed: str) -> None:
    example = np.eye(3).astype(numpy_dtype(dtype))
    array = drawn(name, InputPlan(TensorSpec("x", dtype, (3, 3)), "like", example), seed)
    assert array.tobytes() == example.tobytes() and array is not example


@given(names, seeds)
def test_exact_inputs_are_the_example(name: str, seed: str) -> None:
    example = np.array([0, 2, 5])
    assert drawn(name, InputPlan(TensorSpec("x", "int64", (3,)), "exact", example), seed).tolist() == [0, 2, 5]


def test_open_sizes_are_those_of_the_example() -> None:
    spec = TensorSpec("x", "float32", (-1, 2))
    plans = [InputPlan(spec, example=np.zeros((5, 2), np.float32)), InputPlan(spec)]
    assert [INPUTS.get("random").draw([plan], "0").arrays["x"].shape for plan in plans] == [(5, 2), (2, 2)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "float8_e5m2"])
def test_specials_are_finite_or_one_nan_or_infinite_about_equally_often(dtype: str) -> None:
    plan = InputPlan(TensorSpec("x", dtype, (4, 5)))
    kinds = {"finite": 0, "nan": 0, "infinite": 0, "both": 0}
    seen: set[float] = set()
    for seed in range(400):
        values = drawn("specials", plan, str(seed)).astype(np.float64)
        nans, infinite = int(np.isnan(values).sum()), bool(np.isinf(values).any())
        kinds["both" if nans and infinite else "nan" if nans else "infinite" if infinite else "finite"] += 1
        seen |= set(np.abs(values).ravel().tolist())
    assert min(kinds["finite"], kinds["nan"], kinds["infinite"]) > 80 and kinds["both"] < 60
    import ml_dtypes

    info = ml_dtypes.finfo(numpy_dtype(dtype))
    assert {float(info.max), float(info.smallest_subnormal), float(info.smallest_normal), 0.5, 2.5} <= seen


def test_integer_specials_reach_the_ends_and_beyond_the_exact_floats() -> None:
    wide = {int(v) for s in range(300) for v in drawn("specials", InputPlan(TensorSpec("x", "int64", (8,))), str(s))}
    assert {-(2**63), 2**63 - 1, -1, 0, 1, 2**31, 2**53 + 1} <= wide
    ends = {
        int(v)
        for s in range(100)
        for v in drawn("specials", InputPlan(TensorSpec("x", "int64", (8,)), "wrapped:500"), str(s))
    }
    assert {-500, 499, 0, -1} <= ends


@pytest.mark.parametrize("dtype", FLOATS)
def test_boundary_gives_an_edge_and_both_neighbours(dtype: str) -> None:
    plan, kind = InputPlan(TensorSpec("x", dtype, (6,))), numpy_dtype(dtype)
    strategy = INPUTS.get("boundary")
    seen = {float(v) for seed in range(200) for v in strategy.draw([plan], str(seed), [0.5]).arrays["x"]}
    half = kind.type(0.5)
    assert {0.5, float(np.nextafter(half, kind.type(0))), float(np.nextafter(half, kind.type(1)))} <= seen


def test_random_meets_ties_sparse_tensors_and_large_offsets() -> None:
    plan = InputPlan(TensorSpec("x", "float32", (40,)))
    arrays = [drawn("random", plan, str(seed)) for seed in range(200)]
    assert any(np.all(a == np.round(a)) and len(set(a.tolist())) > 3 for a in arrays)
    assert any((a == 0).mean() > 0.5 and a.any() for a in arrays)
    assert any(a.min() > 900 for a in arrays)
    assert any(0 < np.ptp(a) < 1e-5 for a in arrays)
    assert any(len(set(a.tolist())) == 1 for a in arrays)
    assert all(np.isfinite(a).all() for a in arrays)


def test_the_numbers_do_not_depend_on_the_process() -> None:
    code = (
        "from driftline.inputs.strategies import INPUTS, InputStrategy; from driftline.inputs.plan import InputPlan\n"
        "from driftline.core.tensors import TensorSpec; import hashlib\n"
        "plan = InputPlan(TensorSpec('x', 'bfloat16', (3, 4)))\n"
        "made = b''.join(INPUTS.get(n).draw([plan], str(s)).arrays['x'].tobytes() for n in INPUTS for s in range(20))\n"
        "print(hashlib.sha256(made).hexdigest())"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": salt}, capture_output=True, text=True)
        for salt in ("1", "2")
    ]
    assert runs[0].returncode == 0 and runs[0].stdout == runs[1].stdout


@pytest.mark.parametrize("name", BUILTIN)
def test_three_small_tensors_are_fast(name: str) -> None:
    specs = [("a", "float32", (4, 5), "any"), ("b", "bfloat16", (8,), "any"), ("i", "int64", (4,), "index:5")]
    plans = [InputPlan(TensorSpec(n, dtype, shape), values) for n, dtype, shape, values in specs]
    strategy = INPUTS.get(name)

    def once(seed: int) -> float:
        start = time.process_time()
        strategy.draw(plans, str(seed), EDGES)
        return time.process_time() - start

    assert float(np.median([once(seed) for seed in range(50)])) < 0.003  # measured: 0.1 ms; machines are busy


def test_an_unknown_strategy_is_explained() -> None:
    with pytest.raises(DriftlineError, match="Did you mean"):
        INPUTS.get("special")
