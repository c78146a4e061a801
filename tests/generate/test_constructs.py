"""Constructs: they run, say what they are, and differ by number."""

from __future__ import annotations

from pathlib import Path

import pytest
from framework_runs import runs

from driftline.checking.batch_tasks import write_program
from driftline.generate.base import GeneratorRequest, NoProgram
from driftline.generate.constructs import Constructs
from driftline.inputs.strategies import INPUTS
from driftline.oracle.shadow.local import LocalShadow
from driftline.programs.opened import OpenedProgram


@pytest.mark.filterwarnings("ignore")
def test_programs_run_and_differ() -> None:
    for arm in Constructs().arms("torch"):
        made = [Constructs().make(GeneratorRequest("torch", arm, number)) for number in range(2)]
        assert made[0] == Constructs().make(GeneratorRequest("torch", arm, 0))
        assert made[0].content != made[1].content
        assert made[0].operators == (arm,)
        assert not runs(made[0], "s"), arm


@pytest.mark.filterwarnings("ignore")
def test_the_oracle_can_play_them(tmp_path: Path) -> None:
    """What eager compiles by itself, as `torch.cond`, cannot be played again in float64."""
    for arm in Constructs().arms("torch"):
        made = Constructs().make(GeneratorRequest("torch", arm, 1))
        inputs = INPUTS.get("random").draw(made.inputs, "s").arrays
        opened = OpenedProgram(write_program(made, tmp_path / arm, arm), example=inputs, grad=False)
        assert LocalShadow(opened, inputs).exact(), arm


def test_programs_in_jax_are_programs() -> None:
    for arm in Constructs().arms("jax"):
        text = Constructs().make(GeneratorRequest("jax", arm, 0)).content
        assert isinstance(text, str)
        compile(text, arm, "exec")


def test_a_construct_that_is_not_there_is_no_program() -> None:
    with pytest.raises(NoProgram, match="no construct scan in torch"):
        Constructs().make(GeneratorRequest("torch", "scan", 0))
