"""Scripts of programs in files that hold other programs too, and whether a program draws random numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.campaign.explain.exporting import draws_numbers, subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.target import Target
from driftline.report.export.script import export_script
from driftline.store import Store

# What Dynamo captures is wrong, as by a compiler's fault.
SHARED = """\
import torch
import torch.nn.functional as F


def unrelated():
    return torch.sin, (torch.ones(2),)


def dropped():
    def f(x):
        factor = 3 if torch.compiler.is_dynamo_compiling() else 2
        return F.dropout(x * factor, 0.1, training=False)

    return f, (torch.tensor([1.0, -2.0, 3.0]),)


def branching():
    x = torch.tensor([1.0, -2.0, 3.0])
    if x.sum() > 0:
        function = dropped()[0]
    else:
        function = torch.neg
    return function, (x,)


def drawing():
    return lambda x: F.dropout(x, 0.5), (torch.ones(8),)


def weighted():
    return torch.nn.Linear(3, 2), (torch.ones(2, 3),)


def given_weights():
    layer = torch.nn.Linear(3, 2)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    return layer, (torch.randn(2, 3),)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lines"), [("dropped", 21), ("branching", 32)])
def test_a_script_has_its_own_program_alone(name: str, lines: int, tmp_path: Path, checker: Checker) -> None:
    (tmp_path / "shared.py").write_text(SHARED)
    with Store.create(tmp_path / "store") as store:
        failing = find_failing(
            f"{tmp_path / 'shared.py'}:{name}", store, checker, target=Target.parse("aot_eager"), options=CheckOptions()
        )
        script = export_script(subject_of(store, checker, failing))
    assert script.valid, f"{script.reason}\n{script.text}"
    assert "a correctly rounded result" in script.reason and "manual_seed" not in script.text
    assert "unrelated" not in script.text and "weighted" not in script.text
    assert script.text.count("import torch\n") == 1 and "def filled" not in script.text
    assert script.lines <= lines, script.text


@pytest.mark.parametrize(
    ("name", "draws"), [("dropped", False), ("drawing", True), ("weighted", True), ("given_weights", False)]
)
def test_whether_a_program_draws_is_measured(name: str, draws: bool, tmp_path: Path, checker: Checker) -> None:
    (tmp_path / "shared.py").write_text(SHARED)
    opened = open_program(f"{tmp_path / 'shared.py'}:{name}", checker.pool, CheckOptions())
    samples = (Inputs(opened.example, "example"),)
    case = Case(opened.program, samples, (Target.parse("aot_eager"),), CheckOptions())
    assert draws_numbers(checker, case, checker.reference(case)) is draws
