"""Re-quantisation in torch programs: one quantum is legal under the policy, three are not, and strictly neither is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # it registers the operators
from torch_programs import Program

from driftline.oracle.arithmetic import declared
from driftline.oracle.rule import judge_outputs
from driftline.oracle.shadow.player import Player
from driftline.oracle.shadow.torch.shadow import TorchShadow, record

SCALE = 0.05
WHOLE = torch.tensor([1000.0, 1002.0, 1122.0], dtype=torch.float16)
OPERATORS = torch.ops.quantized_decomposed


def by_operators(x: torch.Tensor) -> torch.Tensor:
    codes = OPERATORS.quantize_per_tensor(x, SCALE, 3, -128, 127, torch.int8)
    return OPERATORS.dequantize_per_tensor(codes, SCALE, 3, -128, 127, torch.int8)


def by_hand(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(torch.round(x / SCALE) + 3, -128, 127).to(torch.int8).float().sub(3) * SCALE


def in_training(x: torch.Tensor) -> torch.Tensor:
    return torch.fake_quantize_per_tensor_affine(x, SCALE, 3, -128, 127)


def by_channels(x: torch.Tensor) -> torch.Tensor:
    scales, zeros = torch.full((8,), SCALE), torch.zeros(8, dtype=torch.int64)
    codes = OPERATORS.quantize_per_channel(x, scales, zeros, 1, -128, 127, torch.int8)
    return OPERATORS.dequantize_per_channel(codes, scales, zeros, 1, -128, 127, torch.int8)


@pytest.mark.parametrize("quantise", [by_operators, by_hand, in_training, by_channels], ids=lambda f: f.__name__)
def test_a_quantum_off(quantise: Callable[[torch.Tensor], torch.Tensor]) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    native = {"output": quantise(x).numpy()}
    tape = record(lambda: {"output": quantise(x)})

    def fails(policy: str, quanta: int) -> bool:
        arithmetic = declared(policy)
        player = Player(TorchShadow(tape, arithmetic))
        assert "quantised" in player.ask(8).uses
        got = native["output"].copy()
        got[1, 2] += np.float32(quanta * SCALE)
        return judge_outputs({"output": got}, native, player.reference(), player.ask, arithmetic).finding is not None

    assert [fails("", 1), fails("requantise", 1), fails("requantise", 2)] == [True, False, True]
    assert [fails("requantise-2", 2), fails("requantise-2", 3)] == [False, True]


def test_a_plain_rounding_is_not_a_quantisation() -> None:
    tape = record(lambda: {"output": torch.round(torch.ones(3) * 2.4) + 1})
    assert "quantised" not in TorchShadow(tape).uses


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.round(x).to(torch.float16) - 3000,
        lambda x: torch.round(WHOLE) + 2001.0 - 3000,
        lambda x: torch.round(x / 1000, decimals=2).to(torch.float16) - 3,
    ],
    ids=["cast", "shift", "decimals"],
)
def test_whole_numbers_that_the_type_does_not_hold_are_rounded(
    program: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """The noise reaches as far as the rounding error of the unoptimised run."""
    x = torch.tensor([3001.2, 3003.1, 3123.4])
    answer = Player(TorchShadow(record(lambda: {"output": program(x)}))).ask(8)
    error = np.abs(program(x).double().numpy() - answer.reference["output"])
    noise = np.abs(answer.samples["output"] - answer.reference["output"]).max(axis=0)
    assert error.max() > 0
    assert (noise >= error / 2).all()


def test_a_zero_point_in_float16_is_exact_where_it_is_clamped() -> None:
    x = torch.tensor([0.3, 4.2, 100.0], dtype=torch.float16)
    tape = record(lambda: {"output": torch.clamp(torch.round(x) + 3, -128, 127).to(torch.int8)})
    answer = Player(TorchShadow(tape)).ask(8)
    assert np.array_equal(answer.low["output"], answer.high["output"])


def test_the_wider_of_two_policies_holds_in_any_order() -> None:
    assert declared("requantise-2+requantise") == declared("requantise+requantise-2") == declared("requantise-2")


@pytest.mark.parametrize("antialias", [False, True])
def test_an_interpolation_of_bytes_may_round_once_or_after_each_axis(antialias: bool) -> None:
    pixels = torch.randint(0, 256, (1, 3, 13, 17), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    def resize(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, size=(22, 28), mode="bilinear", antialias=antialias)

    program = Program(resize, pixels)
    once = resize(pixels.float()).round().to(torch.uint8).numpy()
    assert (once != program.native["output"]).any()
    assert program.judge({"output": once}).finding is None
    once[0, 0, 0, 0] += 3
    assert program.judge({"output": once}).finding
