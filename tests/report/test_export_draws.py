"""Scripts about random numbers end with 1 where the numbers are wrong, and with 0 with a sound generator."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from driftline.core.evidence import Evidence
from driftline.core.verdict import Kind
from driftline.report.scripts.draws import draws_check
from driftline.report.scripts.failure import ShownFailure
from driftline.report.scripts.recipe import Recipe

TWO_MASKS = "[torch.rand(20, 8), torch.rand(20, 8)]"
ONE_MASK = "[torch.rand(20, 8)] * 2"
REPEATED = "[torch.rand(8).expand(20, 8), torch.rand(20, 8)]"
HALVED = "[torch.rand(20, 8) / 2, torch.rand(20, 8)]"
UNSEEDED = "[torch.rand(20, 8, generator=fresh) for fresh in [torch.Generator()] if fresh.seed()]"


def ended_with(fact: str, got: str, *, output: str = "0") -> int:
    evidence = Evidence(output=output, direction=fact, wanted=("0",), came=("1",))
    shown = ShownFailure(Kind.WRONG_DRAWS, evidence, expected={"0": np.zeros(1), "1": np.zeros(1)})
    check = draws_check(shown, Recipe("torch", (), (), (), (), TWO_MASKS, got))
    assert not check.problem
    text = "\n".join([*check.imports, *check.definitions, *check.lines])
    text = text.replace("EXPECTED", TWO_MASKS).replace("GOT", got)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=120).returncode


@pytest.mark.parametrize(
    ("fact", "got"),
    [
        ("correlation with output 1", ONE_MASK),
        ("correlation of neighbours along axis 0", REPEATED),
        ("standard deviation", HALVED),
        ("median", HALVED),
    ],
)
def test_script_shows_numbers_that_are_distributed_otherwise(fact: str, got: str) -> None:
    assert ended_with(fact, got) == 1
    assert ended_with(fact, TWO_MASKS) == 0


def test_script_shows_a_seed_that_fixes_nothing() -> None:
    assert ended_with("", UNSEEDED, output="") == 1
    assert ended_with("", TWO_MASKS, output="") == 0
