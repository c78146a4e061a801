"""A compiler that declares flush-to-zero may take a subnormal input for zero; one that does not may not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch_programs import Program

from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement
from driftline.oracle.arithmetic import effective, has_subnormals, with_subnormals_as_zero
from driftline.oracle.judge import Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.policies import plausible


def _verdict(arithmetic: str, *, subnormal: bool) -> Judgement:
    native = {"y": np.full(8, 0.31, np.float32)}
    exact = {"y": np.full(8, 0.31, np.float64)}
    got: Arrays = {"y": np.zeros(8, np.float32)}
    inputs = {"x": np.array([1.0, 1e-40 if subnormal else 0.0], np.float32)}
    reference = Reference((ReferenceSample(native=native, exact=exact, inputs=inputs),))
    execution = Execution("iree", Outcome.OK, Stage.RUN, outputs=(got,))
    return judge(execution, reference, TargetTraits(False, False, arithmetic=arithmetic)).judgement


def test_only_who_declares_it_is_excused_and_only_on_such_inputs() -> None:
    assert _verdict("flush-to-zero", subnormal=True) is Judgement.INCONCLUSIVE
    assert _verdict("flush-to-zero", subnormal=False) is Judgement.FAIL
    assert _verdict("", subnormal=True) is Judgement.FAIL


def test_what_was_declared_is_tried_on_the_recorded_results() -> None:
    """Results that agree with what the program gives for zeros pass; the others tell nothing."""
    inputs = {"x": np.array([1e-40, 1.0], np.float32)}

    def sample(ceiling: list[float], flushed: ReferenceSample | None) -> ReferenceSample:
        native = {"y": np.array(ceiling, np.float32)}
        exact = {"y": np.array(ceiling, np.float64)}
        return ReferenceSample(native=native, exact=exact, inputs=inputs, flushed=lambda: flushed)

    reference = Reference((sample([1.0, 1.0], sample([0.0, 1.0], None)),))
    for got, expected in (([0.0, 1.0], Judgement.PASS), ([0.0, 2.0], Judgement.INCONCLUSIVE)):
        execution = Execution("inductor", Outcome.OK, Stage.RUN, outputs=({"y": np.array(got, np.float32)},))
        trait = TargetTraits(False, False, arithmetic="flush-to-zero")
        assert judge(execution, reference, trait).judgement is expected
        assert judge(execution, reference, replace(trait, arithmetic="")).judgement is Judgement.FAIL


def test_flushing_keeps_signs_and_all_other_numbers() -> None:
    arrays = {
        "x": np.array([1e-40, -1e-40, 2.0**-126, np.nan, np.inf, -0.0], np.float32),
        "z": np.array([1e-40 + 2j, 1 - 1e-40j], np.complex64),
        "n": np.arange(3),
    }
    flushed = with_subnormals_as_zero(arrays)
    assert np.array_equal(flushed["x"], np.array([0, -0.0, 2.0**-126, np.nan, np.inf, -0.0], np.float32), True)
    assert np.array_equal(np.signbit(flushed["x"][:2]), [False, True])
    assert np.array_equal(flushed["z"], np.array([2j, 1], np.complex64))
    assert flushed["n"] is not arrays["n"] and np.array_equal(flushed["n"], arrays["n"])
    assert has_subnormals(arrays) and not has_subnormals(flushed)


def test_subnormal_numbers_are_seen_in_every_float_type() -> None:
    assert has_subnormals({"x": np.array([1.0, 1e-40], np.float32)})
    assert has_subnormals({"x": np.array([1e-5], np.float16)})
    assert has_subnormals({"x": np.array([1j * 1e-40], np.complex64)})
    assert not has_subnormals({"x": np.array([0.0, -0.0, 1.0, np.nan, np.inf], np.float32), "n": np.arange(3)})


def test_declared_arithmetic_that_makes_no_difference_is_left_out() -> None:
    """So that targets which declare it share the shadow of those that do not."""
    assert effective("double-as-single", ["float32", "exponential"]) == ""
    assert effective("double-as-single", ["float32", "float64"]) == "double-as-single"
    assert effective("half-accumulation+flush-to-zero", ["float32"]) == "flush-to-zero"
    assert effective("half-accumulation", ["float32", "bfloat16"]) == "half-accumulation"
    assert effective("half-accumulation", ["float8_e4m3fn"]) == "half-accumulation"


def test_numbers_that_are_subnormal_on_the_way_make_flushing_plausible() -> None:
    """Neither the input nor the result shows them."""
    small = torch.full((4,), 1e-25)
    program = Program(lambda x: x * 1e-15 * 1e38, small)
    uses = set(program.shadow(8, None).uses)
    reference = Reference((ReferenceSample(native=program.native, inputs={"x": small.numpy()}),))
    assert "flush-to-zero" in plausible(uses, reference, "", on_gpu=False)
    plain = Program(lambda x: x * 1e-5 * 1e28, small)
    assert "flush-to-zero" not in plausible(set(plain.shadow(8, None).uses), reference, "", on_gpu=False)
