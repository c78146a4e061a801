"""At the edges of the range: what may come out of a torch program there, and what still may not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from driftline.core.tensors import Arrays
from driftline.oracle.rule import ShadowAnswer, judge_outputs
from driftline.oracle.shadow.player import Player
from driftline.oracle.shadow.torch_shadow import TorchShadow, record

LARGEST = float(np.finfo(np.float32).max)
INF, NAN = np.inf, np.nan
Program = Callable[[torch.Tensor], torch.Tensor]


def finds(program: Program, x: object, got: object) -> bool:
    """Is this result of the program on x, in float32, a finding?"""
    given = torch.tensor(x, dtype=torch.float32)
    player = Player(TorchShadow(record(lambda: {"y": program(given)})))
    native = {"y": program(given).numpy()}
    output = np.asarray(got).astype(native["y"].dtype).reshape(native["y"].shape)

    def ask(runs: int, outputs: Arrays | None) -> ShadowAnswer:
        return player.ask(runs, outputs)

    return judge_outputs({"y": output}, native, player.reference(), ask).finding is not None


class TestPartialResults:
    """The order of the terms decides whether a partial result overflows."""

    large = (0.5 * LARGEST, 0.7 * LARGEST, -0.5 * LARGEST, -0.7 * LARGEST)

    @pytest.mark.parametrize("got", [0.0, INF, -INF, NAN])
    @pytest.mark.parametrize("program", [torch.mean, torch.sum, lambda x: x @ torch.ones(4)])
    def test_a_sum_that_may_overflow(self, program: Program, got: float) -> None:
        assert not finds(program, self.large, got)

    @pytest.mark.parametrize("got", [1.0, INF, 0.0])
    def test_a_product_whose_factors_are_far_apart(self, got: float) -> None:
        assert not finds(torch.prod, (1e30, 1e30, 1e-30, 1e-30), got)

    @pytest.mark.parametrize("got", [INF, NAN])
    @pytest.mark.parametrize("program", [torch.mean, torch.sum, torch.prod, lambda x: x @ torch.ones(4)])
    def test_what_cannot_overflow_must_not(self, program: Program, got: float) -> None:
        assert finds(program, (1e5, 2e5, 3e5, 4e5), got)


@pytest.mark.parametrize("got", [NAN, -INF, -20.0])
def test_the_logarithm_of_what_may_be_nothing(got: float) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.log(x - torch.tanh(x))

    assert not finds(program, [1e-14], [got])
    assert finds(program, [-1.0], [0.0])


class TestChoicesThatAreNotReturned:
    """What is computed from a choice among nearly equal elements."""

    @staticmethod
    def program(x: torch.Tensor) -> torch.Tensor:
        return -torch.argmin(torch.erf(x))

    def test_any_of_them(self) -> None:
        near = [0.7 * (1 + 1e-7 * place) for place in range(5)]
        assert not any(finds(self.program, near, -place) for place in range(5))

    def test_none_of_the_others(self) -> None:
        assert finds(self.program, [0.7, 0.3, 0.9, 0.5, 0.6], -3)
