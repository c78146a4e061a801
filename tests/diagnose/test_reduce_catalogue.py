"""Every bug of the catalogue that fails here is reduced to at most three operators; the planted relu bug to one."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.causes import builtin
from driftline.causes.sighting import machine_name
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.errors import BackendUnavailable
from driftline.core.target import Target
from driftline.store import Store

BUGS = Path(__file__).resolve().parents[2] / "examples" / "bugs"
QUICK = ("openvino", "onnxruntime")


def _failing() -> list[Any]:
    return [
        pytest.param(
            cause.example,
            target,
            id=f"{Path(cause.example).stem}-{target}",
            marks=() if target in QUICK else pytest.mark.slow,
        )
        for cause in builtin()
        for target in cause.fails_on
        if not cause.machines or machine_name(platform.machine()) in cause.machines
    ]


@pytest.mark.parametrize(("file", "target"), _failing())
def test_at_most_three_operators(file: str, target: str, checker: Checker, store_folder: Path) -> None:
    with Store.create(store_folder) as store:
        try:
            failing = find_failing(
                f"{BUGS / file}:program", store, checker, target=Target.parse(target), options=CheckOptions()
            )
        except BackendUnavailable as error:
            pytest.skip(str(error))
        found = reduce_failing(checker, store, failing, budget=900).reduction
    assert found.after.operators <= 3
    assert found.after <= found.before
    assert found.smallest is not None


SIXTY = """
import torch


def model(x):
    for at in range(20):
        x = torch.sin(x) * 1.25 + torch.cos(x)
        if at == 11:
            x = torch.relu(x)
    return x.sum(-1)


def program():
    return model, (torch.randn(4, 16),)
"""


@pytest.mark.slow
def test_the_relu_bug_that_inductor_plants_itself(checker: Checker, store_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sixty.py").write_text(SIXTY)
    target = Target.parse("inductor:inject_relu_bug=accuracy")
    with Store.create(store_folder) as store:
        failing = find_failing(f"{tmp_path}/sixty.py:program", store, checker, target=target, options=CheckOptions())
        found = reduce_failing(checker, store, failing, budget=900).reduction
    assert found.before.operators >= 60
    assert (list(found.case.program.operators), found.ended) == (["relu"], "1-minimal")
    assert found.after.elements == 1
