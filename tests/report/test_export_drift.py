"""A drift that shows over many inputs together only has a script too: they are drawn from a seed, or written out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.checking.checker import Checker
from driftline.cli import run
from driftline.core.evidence import Evidence
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.report.export.clean_run import run_clean
from driftline.report.export.script import export_script, export_test
from driftline.report.scripts.check import check_for
from driftline.report.scripts.drift import DRAWN, with_drawn_inputs, with_listed_inputs
from driftline.report.scripts.failure import ShownFailure
from driftline.report.scripts.recipe import ROOM, Recipe
from driftline.report.scripts.recipe_source import source_recipe
from driftline.report.scripts.render import check_script
from driftline.store import Store

PROGRAM = """
import jax.numpy as jnp


def model(x):
    return x * 0.3


def program():
    return model, (jnp.zeros((4, 8)),)
"""
# The product moved by a small part of what rounding does to it: few results change, all in one direction.
DRIFTING = "[np.float32(np.float64(inputs[0]) * np.float64(np.float32(0.3)) * (1 + 1e-8))]"


def recipe(seed: int, room: int) -> Recipe:
    arrays = {"x": np.random.default_rng(seed).standard_normal((4, 8)).astype(np.float32)}
    bundle = SourceBundle("p.py", "program", {"p.py": PROGRAM})
    return source_recipe(bundle, "jax", arrays, Target.parse("xla"), room=room)


@pytest.mark.parametrize("way", ["drawn", "listed"])
def test_many_inputs_show_what_one_does_not(way: str) -> None:
    drawn = with_drawn_inputs(recipe(0, DRAWN))
    listed = with_listed_inputs([recipe(seed, ROOM) for seed in range(16)])
    made = drawn if way == "drawn" else listed
    assert made and not made.left_out
    assert shows_drift(replace(made, got=DRIFTING))
    assert not shows_drift(made)
    assert not shows_drift(replace(recipe(0, ROOM), got=DRIFTING))


def shows_drift(made: Recipe) -> bool:
    check = check_for(ShownFailure(Kind.BIAS, Evidence(direction="y: scale")), made)
    ran = run_clean(check_script(made, check))
    assert "drift in standard errors:" in ran.output, ran.errors
    assert ran.shows_bug or ran.status == 0
    return ran.shows_bug


def test_values_that_cannot_be_written_out_are_not_made_up() -> None:
    assert with_listed_inputs([recipe(0, ROOM), recipe(1, DRAWN)]) is None


PLANTED = """
import torch


def model(x):
    y = torch.sin(x)
    if torch.compiler.is_compiling():
        y = (y.double() * (1 + 1.5e-7)).float()
    return y


def program():
    return model, (torch.randn(8, 16),)
"""


@pytest.mark.slow
def test_a_drift_that_check_finds_is_exported(checker: Checker, store_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(PLANTED)
    given = ["--targets", "aot_eager", "--inputs", "random", "--samples", "16", "--store", str(store_folder)]
    assert run(["check", f"{tmp_path}/planted.py:program", *given]) == 1
    with Store.open(store_folder) as store:
        (bug,) = store.bugs()
        subject = subject_of(store, checker, find_failing(bug.id, store, checker))
        assert subject.pooled
        script = export_script(subject)
        assert script.valid, f"{script.reason}\n{script.text}"
        assert "drift in standard errors:" in script.output
        assert export_test(subject).valid
