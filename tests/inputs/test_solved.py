"""The strategy `symbolic` of hunts: inputs on which a small program breaks, the same for the same seed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.hunt.lane import SOLVED_EVERY, Lane
from driftline.campaign.hunt.plan import HuntPlan
from driftline.core.program import Program, SourceBundle
from driftline.core.tensors import TensorSpec
from driftline.inputs.plan import InputPlan
from driftline.inputs.strategies import INPUTS

TEXT = """
import torch


def model(x0, x1):
    return torch.log(torch.exp(x0) - x1) / x1,


def program():
    return model, (torch.zeros((4, 8)), torch.zeros((4, 8)))
"""
SPECS = tuple(TensorSpec(name, "float32", (4, 8)) for name in ("x0", "x1"))
PLANS = [InputPlan(spec) for spec in SPECS]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    data = SourceBundle("program.py", "program", {"program.py": TEXT}).dump()
    path = tmp_path / "program"
    path.write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return Program("source", "torch", digest, path, "p", SPECS, (), ("log", "exp", "sub", "div"))


def test_the_program_breaks_on_what_is_drawn(program: Program) -> None:
    strategy = INPUTS.get("symbolic")
    drawn = strategy.draw(PLANS, "a", (0.0,), program)
    again = strategy.draw(PLANS, "a", (0.0,), program)
    x0, x1 = (drawn.arrays[name] for name in ("x0", "x1"))
    assert all(np.array_equal(drawn.arrays[name], again.arrays[name]) for name in drawn.arrays)
    assert np.isfinite(x0).all() and np.isfinite(x1).all()
    with np.errstate(all="ignore"):
        assert not np.isfinite(np.log(np.exp(x0) - x1) / x1).all()


def test_without_a_program_or_with_a_large_one_edges_stand_in(program: Program) -> None:
    strategy = INPUTS.get("symbolic")
    large = replace(program, operators=("exp",) * 200)
    first, second = strategy.draw(PLANS, "a", (0.0,)), strategy.draw(PLANS, "a", (0.0,), large)
    assert all(np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays)


def test_every_eighth_program_of_a_hunt_is_solved_for() -> None:
    lane = Lane.__new__(Lane)  # what it asks for depends on nothing else here
    object.__setattr__(lane, "strategies", HuntPlan.inputs)
    special = [lane._strategies(number)[1] for number in range(4 * SOLVED_EVERY)]
    assert special.count("symbolic") == 4
    assert {"specials", "boundary"} <= set(special)
