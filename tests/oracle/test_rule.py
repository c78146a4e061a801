"""The rule finds what is wrong and leaves alone what is only rounded differently: the holes that others have."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_programs import Program

from driftline.core.tensors import Arrays
from driftline.core.verdict import Kind
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.rule import FULL_RUNS

NAN, INF = float("nan"), float("inf")


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


# -- what must be found ----------------------------------------------------------------------------------------------


def test_one_wrong_element_of_a_million() -> None:
    program = Program(lambda x: x * 2 + 1, random(1000, 1000))
    outputs = program.copy()
    outputs["output"][777, 3] *= np.float32(1 + 1e-5)
    finding = program.judge(outputs).finding
    assert finding and finding.evidence.worst[0].place == (777, 3)


def test_nan_on_both_sides_does_not_hide_another_element() -> None:
    program = Program(lambda x: x / x, torch.tensor([0.0, 2.0, 3.0]))
    assert program.judge(program.copy()).finding is None
    outputs = program.copy()
    outputs["output"][2] = 1.5
    finding = program.judge(outputs).finding
    assert finding and finding.kind is Kind.WRONG_VALUE


def test_infinities() -> None:
    program = Program(lambda x: x / 0, torch.tensor([1.0, -1.0]))
    outputs = program.copy()
    assert program.judge(outputs).finding is None
    outputs["output"][0] = 3e38
    finding = program.judge(outputs).finding
    assert finding and finding.kind is Kind.WRONG_NONFINITE
    outputs["output"][0] = -INF
    assert program.judge(outputs).finding


def test_a_nan_does_not_hide_that_the_numbers_are_wrong_too() -> None:
    program = Program(lambda x: x * 2, torch.arange(8.0))
    outputs = {"output": np.array([NAN, 7, 7, 7, 7, 7, 7, 7], np.float32)}
    finding = program.judge(outputs).finding
    assert finding and finding.kind is Kind.WRONG_VALUE
    assert "besides, 1 of 8 elements differ in NaN or Inf" in finding.reason


def test_neighbouring_large_integers() -> None:
    program = Program(lambda x: x + 0, torch.tensor([2**53], dtype=torch.int64))
    outputs = program.copy()
    outputs["output"][0] += 1
    assert program.judge(outputs).finding


def test_the_imaginary_part_alone() -> None:
    program = Program(lambda x: x * x, torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64))
    outputs = program.copy()
    outputs["output"].imag[1] *= np.float32(1.001)
    finding = program.judge(outputs).finding
    assert finding and finding.kind is Kind.WRONG_VALUE


def test_a_swallowed_nan_and_an_invented_one() -> None:
    program = Program(lambda x: x * 0, torch.tensor([NAN, 1.0]))
    for place, value in ((0, 0.0), (1, NAN)):
        outputs = program.copy()
        outputs["output"][place] = value
        finding = program.judge(outputs).finding
        assert finding and finding.kind is Kind.WRONG_NONFINITE


def test_half_accumulation_is_a_bug_unless_it_is_declared() -> None:
    a, b = random(16, 2048, dtype=torch.float16), random(2048, 16, seed=1, dtype=torch.float16)
    total = torch.zeros(16, 16, dtype=torch.float16)
    for start in range(0, 2048, 8):
        total = total + a[:, start : start + 8] @ b[start : start + 8]
    outputs = {"output": total.numpy()}
    assert Program(torch.matmul, a, b).judge(outputs).finding
    declared = Program(torch.matmul, a, b, arithmetic=Arithmetic(half_accumulation=True))
    assert declared.judge(outputs).finding is None


def test_tf32_is_a_bug_unless_it_is_declared() -> None:
    a, b = random(32, 256), random(256, 32, seed=1)
    cut = [(t.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32) for t in (a, b)]
    outputs = {"output": (cut[0] @ cut[1]).numpy()}
    assert Program(torch.matmul, a, b).judge(outputs).finding
    assert Program(torch.matmul, a, b, arithmetic=Arithmetic(tf32=True)).judge(outputs).finding is None


def test_drift_too_small_for_any_element_is_a_bias() -> None:
    a, b = random(64, 64, dtype=torch.float16), random(64, 64, seed=1, dtype=torch.float16)
    program = Program(torch.matmul, a, b)
    outputs = {"output": (program.exact["output"] * (1 + 2e-4)).astype(np.float16)}
    finding = program.judge(outputs).finding
    assert finding and finding.kind is Kind.BIAS


def test_drift_of_the_unoptimised_run_itself_is_none_of_the_compiler() -> None:
    a, b = random(64, 64, dtype=torch.float16), random(64, 64, seed=1, dtype=torch.float16)
    program = Program(torch.matmul, a, b)
    drifting = {"output": (program.exact["output"] * (1 + 2e-4)).astype(np.float16)}
    program.native = drifting
    assert program.judge({"output": drifting["output"].copy() + np.float16(0)}).finding is None
    nudged = drifting["output"].copy()
    nudged[0, 0] = np.nextafter(nudged[0, 0], np.float16(9))
    assert program.judge({"output": nudged}).finding is None
    further = {"output": (program.exact["output"] * (1 + 8e-4)).astype(np.float16)}
    assert program.judge(further).finding


def test_the_words_maintainers_ask_for() -> None:
    program = Program(torch.matmul, random(64, 64), random(64, 64, seed=1))
    finding = program.judge({"output": program.native["output"] * np.float32(1.001)}).finding
    assert finding and "legal rounding moves this element by" in finding.reason
    assert ", the reference by " in finding.reason


# -- what must be left alone -----------------------------------------------------------------------------------------


def test_shapes_without_elements_or_dimensions() -> None:
    for value in (torch.tensor(2.0), torch.zeros(0, 3)):
        program = Program(lambda x: x.exp(), value)
        assert program.judge(program.copy()).finding is None


def test_outputs_that_share_memory() -> None:
    """An expanded output, a transposed view, an input that is returned."""
    program = Program(lambda x: (x[:1].expand(4, 3), x.t(), x), random(4, 3))
    outputs = program.copy()
    assert program.judge(outputs).finding is None
    outputs["2"][0, 0] += 1
    assert program.judge(outputs).finding


def test_in_place_operations() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[1:] += x[:-1].exp()
        return y.mul_(2).cumsum(0)

    program = Program(function, random(5, 4))
    np.testing.assert_allclose(program.exact["output"], program.native["output"], rtol=1e-5)
    outputs = program.copy()
    outputs["output"][3, 1] *= np.float32(1.0001)
    assert program.judge(outputs).finding


def test_float8() -> None:
    program = Program(lambda x: x.to(torch.float8_e4m3fn), random(32))
    assert program.native["output"].dtype == ml_dtypes.float8_e4m3fn
    assert program.judge(program.copy()).finding is None
    outputs = program.copy()
    outputs["output"][4] = -outputs["output"][4]
    assert program.judge(outputs).finding


def test_overflow_that_float32_arithmetic_avoids_is_legal() -> None:
    """A fused kernel keeps float32 between two float16 operations: finite where eager overflows."""
    program = Program(lambda x: (x * x) / 1000, torch.tensor([300.0, 2.0], dtype=torch.float16))
    assert np.isinf(program.native["output"][0])
    assert program.judge({"output": np.array([90.0, 0.004], np.float16)}).finding is None


def test_whether_a_partial_sum_overflows_is_a_matter_of_order() -> None:
    """-3e38 in float64; in float32 the first two terms overflow, or the last two do not, as one likes."""
    large = torch.tensor([3e38, 3e38, -3e38, -3e38, -3e38, 1.0])
    program = Program(lambda x: x.sum(), large)
    for value in (INF, -INF, NAN, float(program.native["output"])):
        assert program.judge({"output": np.array(value, np.float32)}).finding is None
    small = Program(lambda x: x.sum(), large / 1e6)
    assert small.judge({"output": np.array(INF, np.float32)}).finding


def test_a_sum_of_float16_has_more_room_than_its_result() -> None:
    """20000 of terms as large: infinite only where sums are kept in float16, which a target would have to declare."""
    factors = [torch.tensor(each, dtype=torch.float16) for each in ([200.0, 200, -200, -100], [200.0, 200, 200, 200])]
    program = Program(torch.matmul, *factors)
    assert program.native["output"] == 20000
    infinite = {"output": np.array(INF, np.float16)}
    assert program.judge(infinite).finding
    narrow = Program(torch.matmul, *factors, arithmetic=Arithmetic(half_accumulation=True))
    assert narrow.judge(infinite).finding is None


def test_what_infinities_do_in_a_complex_product_is_not_judged() -> None:
    program = Program(lambda x: x * x, torch.tensor([complex(INF, 1), 1 + 2j], dtype=torch.complex64))
    outputs = program.copy()
    outputs["output"][0] = complex(NAN, INF)
    assert program.judge(outputs).finding is None
    outputs["output"][1] *= np.float32(1.001)
    assert program.judge(outputs).finding


def test_a_fourier_transform_is_no_pointwise_function() -> None:
    """Its result is as large as its input, but each element is a sum of all."""
    signal = torch.ones(64) * 0.7 + torch.arange(64) * 1e-7
    program = Program(lambda x: torch.fft.irfft(torch.fft.rfft(x)), signal)
    rng = np.random.default_rng(0)
    outputs = {n: a + (rng.standard_normal(a.shape) * 6e-8).astype(a.dtype) for n, a in program.native.items()}
    assert program.judge(outputs).finding is None
    outputs["output"][3] += np.float32(1e-3)
    assert program.judge(outputs).finding


def test_an_interpolated_infinity_is_unspecified() -> None:
    program = Program(
        lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="linear"), torch.tensor([[[1.0, INF, 2.0]]])
    )
    outputs = program.copy()
    outputs["output"][0, 0, 2] = NAN
    judged = program.judge(outputs)
    assert judged.finding is None and judged.unspecified == ("torch.interpolated-infinity",)


def test_ill_conditioned_elements_are_not_judged() -> None:
    x = torch.tensor([1.0, 1.0], dtype=torch.float32)
    program = Program(lambda x: (x * 1.1 - 1.1) * 1e7 + 1e-3, x)
    outputs = program.copy()
    outputs["output"][0] += np.float32(0.3)
    judged = program.judge(outputs)
    assert judged.finding is None and judged.unjudged


# -- steps and choices -----------------------------------------------------------------------------------------------


def other_order(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(a.shape[0], b.shape[1])
    for start in range(0, a.shape[1], 8):
        total = total + a[:, start : start + 8].float() @ b[start : start + 8].float()
    return total.to(a.dtype)


STEPS = {
    "floor": torch.floor,
    "round": lambda y: torch.round(y * 8).clamp(-128, 127),
    "to_int": lambda y: y.to(torch.int32),
    "greater": lambda y: y > 0,
    "argmax": lambda y: y.argmax(-1),
    "topk": lambda y: torch.topk(y, 5, -1),
    "sort": lambda y: torch.sort(y, -1),
    "max": lambda y: y.max(0),
    "depends": lambda y: torch.gather(y, 1, y.argmax(-1, keepdim=True)) + torch.floor(y[:, :1]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("step", STEPS)
def test_steps_and_choices_may_fall_either_way(step: str, dtype: torch.dtype) -> None:
    from driftline.backends._torch import as_arrays, flatten_tensors

    for seed in range(3):
        a, b = random(128, 64, seed=seed, dtype=dtype), random(64, 256, seed=seed + 100, dtype=dtype)
        program = Program(lambda a, b: STEPS[step](a @ b), a, b)
        judged = program.judge(as_arrays(flatten_tensors(STEPS[step](other_order(a, b)))))
        assert judged.finding is None, judged.finding


def spoil(name: str, outputs: Arrays) -> None:
    """A wrong step or choice in one place."""
    if name == "argmax":
        outputs["output"][3] = (outputs["output"][3] + 1) % 256
    elif name in ("topk", "sort"):
        outputs["1"][3, 0], outputs["1"][3, 3] = outputs["1"][3, 3], outputs["1"][3, 0]
    elif name == "max":
        outputs["1"][3] = (outputs["1"][3] + 1) % 128
    elif name == "greater":
        outputs["output"][3] = ~outputs["output"][3]
    else:
        outputs["output"][3] += 3


@pytest.mark.parametrize("step", STEPS)
def test_wrong_steps_and_choices_are_found(step: str) -> None:
    program = Program(lambda a, b: STEPS[step](a @ b), random(128, 64), random(64, 256, seed=1))
    outputs = program.copy()
    spoil(step, outputs)
    assert program.judge(outputs).finding


def test_of_equal_elements_argmax_must_take_the_first_but_sort_need_not() -> None:
    ties = torch.tensor([[1.0, 5.0, 5.0, 2.0]])
    program = Program(lambda x: x.argmax(1), ties)
    finding = program.judge({"output": np.array([2])}).finding
    assert finding and "is specified" in finding.reason
    program = Program(lambda x: torch.sort(x, 1), ties)
    outputs = program.copy()
    outputs["1"][0, 2:] = outputs["1"][0, [3, 2]]
    assert program.judge(outputs).finding is None


def test_between_two_legal_choices_there_is_no_third() -> None:
    """Two near ties far apart: the places between them are wrong."""
    x = torch.zeros(1, 64, dtype=torch.float32)
    x[0, 3], x[0, 60] = 1.0, 1.0 + 1e-7
    program = Program(lambda x: (x * 1.1 - 0.3).exp().argmax(1), x)
    assert program.judge({"output": np.array([3])}).finding is None
    assert program.judge({"output": np.array([60])}).finding is None
    assert program.judge({"output": np.array([30])}).finding


def test_a_step_may_fall_to_either_side_but_not_beyond() -> None:
    x = torch.full((4, 3), 1.0)
    program = Program(lambda x: torch.floor(x.mean(-1) * 3.0 / 1.1 * 1.1), x)
    for legal in (2.0, 3.0):
        assert program.judge({"output": np.full(4, legal, np.float32)}).finding is None
    for wrong in (1.0, 4.0):
        assert program.judge({"output": np.full(4, wrong, np.float32)}).finding


def test_random_numbers_are_those_that_were_drawn() -> None:
    program = Program(lambda x: x + torch.rand(4, generator=None), random(4))
    np.testing.assert_allclose(program.exact["output"].std() > 0, True)
    first, second = program.shadow(2, None), program.shadow(2, None)
    np.testing.assert_array_equal(first.reference["output"], second.reference["output"])


# -- what the specification leaves open ------------------------------------------------------------------------------


def test_a_cast_of_nan_is_unspecified_but_its_neighbour_is_not() -> None:
    program = Program(lambda x: x.to(torch.int32) * 2 + 1, torch.tensor([NAN, 1.0, 1e20]))
    outputs = program.copy()
    outputs["output"][0] = outputs["output"][2] = 5
    judged = program.judge(outputs)
    assert judged.finding is None and judged.unspecified == ("torch.cast-out-of-range",)
    outputs["output"][1] = 77
    assert program.judge(outputs).finding


def test_uninitialised_memory_is_unspecified() -> None:
    program = Program(lambda x: torch.cat([torch.empty(2), x]), torch.ones(2))
    outputs = program.copy()
    outputs["output"][:2] = 123.0
    judged = program.judge(outputs)
    assert judged.finding is None
    outputs["output"][2] = 123.0
    assert program.judge(outputs).finding


def test_what_follows_from_a_tossed_choice_passes_where_it_is_only_rounded() -> None:
    """An expert is chosen among two that score the same: all that it computes is open, but the same choice with other
    roundings is no difference that rests on it."""
    score = random(64, 1)
    experts = random(2, 32, 64, seed=1)

    def program_of(x: torch.Tensor) -> torch.Tensor:
        return experts[torch.topk(x @ torch.cat([score, score.flip(0)], 1), 1).indices] @ x

    half = random(32, seed=2)
    x = torch.cat([half, half.flip(0)])
    program = Program(program_of, x)
    rounded = {"output": np.nextafter(program.native["output"], np.float32(INF))}
    chosen = torch.from_numpy(program.native["output"])
    other = next(made for made in experts @ x if not torch.allclose(made, chosen[0]))
    both = [program.judge(outputs) for outputs in (rounded, {"output": other[None].numpy()})]
    assert [judged.finding for judged in both] == [None, None]
    # Which of them the exact run chose depends on the order of its sums, and that on the processor.
    assert {judged.unspecified for judged in both} == {(), ("rounding-decides",)}


def test_shifts_beyond_the_width_are_unspecified() -> None:
    program = Program(torch.bitwise_left_shift, torch.tensor([1, 1]), torch.tensor([70, 3]))
    outputs = program.copy()
    outputs["output"][0] += 5
    judged = program.judge(outputs)
    assert judged.finding is None and judged.unspecified == ("torch.shift-beyond-width",)


# -- properties ------------------------------------------------------------------------------------------------------

PROPERTY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@PROPERTY
@given(st.integers(0, 10**6), st.integers(2, 400), st.sampled_from([torch.float32, torch.float16, torch.bfloat16]))
def test_any_order_of_a_sum_is_legal(seed: int, terms: int, dtype: torch.dtype) -> None:
    x = random(4, terms, seed=seed, dtype=dtype)
    order = torch.randperm(terms, generator=torch.Generator().manual_seed(seed))
    total = torch.zeros(4)
    for column in order:
        total = total + x[:, column].float()
    assert Program(lambda x: x.sum(-1), x).judge({"output": _array(total.to(dtype))}).finding is None


@PROPERTY
@given(st.integers(0, 10**6), st.sampled_from(["exp", "matmul", "mean", "softmax"]))
def test_a_scaled_output_is_always_found(seed: int, kind: str) -> None:
    functions = {
        "exp": torch.exp,
        "matmul": lambda x: x @ x.t(),
        "mean": lambda x: (x * x).mean(-1),
        "softmax": lambda x: torch.softmax(x, -1),
    }
    program = Program(functions[kind], random(8, 8, seed=seed))
    assert program.judge({"output": program.native["output"] * np.float32(1 + 1e-3)}).finding


def _array(tensor: torch.Tensor) -> np.ndarray:  # type: ignore[type-arg]
    from driftline.programs.torch_tensors import array_from_tensor

    return array_from_tensor(tensor)


def test_a_gross_error_in_an_ill_conditioned_result() -> None:
    """Rounding moves these differences by as much as they are. Further off than it takes any of them, by far, is wrong;
    what lies among them is not judged."""
    x = random(64) + 1e7
    program = Program(lambda a, b: a * 1.1 - b * 1.1, x, x + random(64, seed=1))
    judged = program.judge(program.copy() | {"output": program.native["output"] + np.float32(2)})
    assert judged.finding is None and judged.noisy
    outputs = program.copy()
    outputs["output"][5] = 1e6
    finding = program.judge(outputs).finding
    assert finding and finding.evidence.worst[0].place == (5,) and finding.evidence.certain


def test_a_gross_error_in_a_scalar() -> None:
    x = torch.tensor(1e7)
    program = Program(lambda a, b: a * 1.1 - b * 1.1, x, x + 1)
    finding = program.judge({"output": np.array(1e6, dtype=np.float32)}).finding
    assert finding and finding.evidence.worst[0].place == ()


def test_a_result_of_any_size_has_no_gross_errors() -> None:
    """Rounding moves this exponent by several units: ten thousand times as large as in any run seen is still legal."""
    x = torch.tensor([1e8])
    program = Program(lambda a, b: torch.exp(a * 1.1 - b * 1.1), x, x)
    answer = program.shadow(FULL_RUNS, None)
    largest = max(np.abs(answer.samples["output"]).max(), np.abs(program.native["output"]).max())
    judged = program.judge({"output": np.float32([largest * 1e4])})
    assert judged.finding is None and judged.noisy


def test_a_stable_sort_keeps_equal_elements_in_order() -> None:
    ties = torch.tensor([[1.0, 0.0, 1.0, 1.0]])
    for stable in (True, False):
        program = Program(lambda x, stable=stable: torch.sort(x, dim=1, stable=stable), ties)
        indices = next(name for name, value in program.native.items() if value.dtype == np.int64)
        outputs = program.copy()
        outputs[indices][:] = [[1, 3, 0, 2]]
        assert (program.judge(outputs).finding is not None) == stable
    noisy = Program(lambda x: torch.sort(x.cos(), dim=1, stable=True), ties)  # here rounding decides
    indices = next(name for name, value in noisy.native.items() if value.dtype == np.int64)
    outputs = noisy.copy()
    outputs[indices][:] = np.flip(outputs[indices][:, :3]).tolist()[0] + outputs[indices][0, 3:].tolist()
    assert noisy.judge(outputs).finding is None


def test_ties_among_exact_products_are_ties_everywhere() -> None:
    """Rounding moves nothing that fits its type: of equal products the first is the largest. Where it may move them,
    either is."""
    ties = torch.tensor([[1.0, 5.0, 5.0, 2.0]])
    exact = Program(lambda x: (x * 2 + 1).relu().argmax(1), ties)
    assert exact.judge({"output": np.array([2])}).finding
    assert exact.judge({"output": np.array([1])}).finding is None
    rounded = Program(lambda x: (x * 0.1 + 1).relu().argmax(1), ties)
    assert rounded.judge({"output": np.array([2])}).finding is None
    compared = Program(lambda x: x * 3 > 15, ties)
    assert compared.judge({"output": np.array([[False, True, False, False]])}).finding


def test_a_factor_that_is_rounded_itself_makes_no_exact_product() -> None:
    """In float64 10 * 0.3 is 3. A fused multiply-add with 0.3 in float32 does not give 3, and is legal."""
    x, thirds = torch.tensor([10.0, 20.0, 40.0]), torch.tensor([3.0, 6.0, 12.0])
    program = Program(lambda x: x * 0.3 - thirds, x)
    fused = (x.double() * float(np.float32(0.3)) - thirds.double()).float().numpy()
    assert fused.all() and program.judge({"output": fused}).finding is None
    compared = Program(lambda x: x * 0.3 > thirds, x)
    assert compared.judge({"output": fused > 0}).finding is None
