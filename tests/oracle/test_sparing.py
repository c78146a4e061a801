"""A few samples first: never lets pass what eight would not, and nothing is played twice."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_programs import Program

from driftline.core.tensors import Arrays
from driftline.oracle.rule import FEW_RUNS, QUICK_RUNS, judge_outputs
from driftline.oracle.shadow.player import Player
from driftline.oracle.shadow.torch.shadow import TorchShadow


class Counting(TorchShadow):
    """Counts what it plays."""

    references = samples = 0

    def reference(self) -> Arrays:
        self.references += 1
        return super().reference()

    def sample(self, number: int) -> Arrays:
        self.samples += 1
        return super().sample(number)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


PROGRAMS = {
    "pointwise": Program(lambda x: x * 3 + 1, random(6, 7)),
    "product": Program(lambda x: (x @ x.T).exp(), random(5, 40) / 8),
    "cancelling": Program(lambda x: (x + 1000.0) - 1000.0, random(50)),
    "step": Program(lambda x: (x * 10).floor() + x, random(64)),
    "nonfinite": Program(lambda x: torch.log(x) / (x - x), random(16)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("size", [1e-8, 1e-7, 3e-7, 1e-6, 1e-5, 1e-4, 1e-2, 1.0])
def test_what_passes_sparingly_passes(name: str, size: float) -> None:
    program = PROGRAMS[name]
    rng = np.random.default_rng(int(1 / size))
    for _ in range(6):
        outputs = program.copy()
        values = outputs["output"]
        places = rng.random(values.shape) < rng.choice([0.05, 1.0])
        values[places] *= (1 + size * rng.standard_normal(values.shape)[places]).astype(values.dtype)
        player = Player(TorchShadow(program.tape))
        sparing = judge_outputs(outputs, program.native, program.exact, player.ask, sparing=True)
        full = judge_outputs(outputs, program.native, program.exact, program.shadow)
        assert (sparing.finding is None) == (full.finding is None), f"{sparing}\n{full}"


def test_an_unmodelled_program_is_no_excuse_for_a_compiler() -> None:
    """Where nothing but the last operation is taken to round, the program's own run stands far off too."""
    program = PROGRAMS["cancelling"]
    outputs = {"output": program.native["output"] * np.float32(1.01)}
    player = Player(TorchShadow(program.tape))
    assert judge_outputs(outputs, program.native, program.exact, player.ask, sparing=True).finding


def test_more_samples_cost_what_is_missing() -> None:
    shadow = Counting(PROGRAMS["product"].tape)
    player = Player(shadow)
    player.reference()
    few, quick = player.ask(FEW_RUNS), player.ask(QUICK_RUNS)
    assert (shadow.references, shadow.samples) == (1, QUICK_RUNS)
    assert np.array_equal(few.samples["output"], quick.samples["output"][:FEW_RUNS])
    alone = Player(TorchShadow(PROGRAMS["product"].tape)).ask(QUICK_RUNS)
    assert np.array_equal(alone.samples["output"], quick.samples["output"])


def test_where_rounding_decides_a_few_do_not_do() -> None:
    assert Player(TorchShadow(PROGRAMS["step"].tape)).ask(FEW_RUNS).runs == QUICK_RUNS


def test_a_choice_that_is_taken_over_is_played_anew() -> None:
    values = torch.tensor([1.0, 1.0 + 1e-7, 0.5])
    program = Program(lambda x: torch.argmax(x * 3.0 / 3.0), values)
    shadow = Counting(program.tape)
    player = Player(shadow)
    player.ask(QUICK_RUNS)
    other = {"output": np.array(0)}
    answer = player.ask(QUICK_RUNS, other)
    assert answer.choices == {"output": ""}
    assert shadow.references == 2 and shadow.samples == 2 * QUICK_RUNS


def test_a_comparison_with_a_number_far_away_decides_nothing() -> None:
    """As in attention's softmax, which compares with minus infinity: nothing is pushed, and a few samples suffice."""
    program = Program(lambda x: torch.where((x @ x.T).eq(-torch.inf), 0.0, (x @ x.T) / 3), random(5, 40))
    shadow = Counting(program.tape)
    Player(shadow).ask(FEW_RUNS)
    assert (shadow.samples, shadow.pushed()) == (FEW_RUNS, [])


def test_a_comparison_with_a_number_close_by_is_pushed_across_it() -> None:
    x = random(5, 40)
    edge = float((x.double() @ x.double().T)[0, 0])
    program = Program(lambda x: torch.where((x @ x.T) > edge, 1.0, 0.0), x)
    answer = Player(TorchShadow(program.tape)).ask(FEW_RUNS)
    assert (answer.low["output"][0, 0], answer.high["output"][0, 0]) == (0.0, 1.0)
    assert answer.runs == QUICK_RUNS


def test_an_operator_of_the_users_with_the_name_of_a_comparison() -> None:
    library = torch.library.Library("sparing_test", "DEF")
    library.define("gt(Tensor x) -> Tensor")
    library.impl("gt", lambda x: (x > 0).to(x.dtype), "CPU")
    program = Program(lambda x: torch.ops.sparing_test.gt(x @ x.T), random(5, 40))
    assert Player(TorchShadow(program.tape)).ask(FEW_RUNS).reference["output"].shape == (5, 5)
