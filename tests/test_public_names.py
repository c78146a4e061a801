"""The public face of the package: its names, its docstring, and how its results are shown in a session."""

from __future__ import annotations

import ast
import inspect
import pydoc
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import driftline
import driftline.inductor
import driftline.testing
from driftline.campaign.check.settings import CheckKeywords, CheckSettings
from driftline.campaign.hunt.result import HuntResult
from driftline.campaign.hunt.settings import HuntKeywords
from driftline.checking.checker import CheckOutcome, Skipped, TargetResult
from driftline.checking.result import CheckResult, Replay, ReplayAnswer
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.verdict import Fingerprint, Judgement, Kind, Status, Verdict
from driftline.oracle.judge import Reference
from driftline.store import Bug
from driftline.store.hunts import Hunt

SHORT = 300


def test_dir_and_help_list_every_public_name() -> None:
    program = "import driftline, pydoc; print(*dir(driftline)); print(pydoc.plain(pydoc.render_doc(driftline)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    listed, _, help_text = done.stdout.partition("\n")
    assert listed.split() == sorted(driftline.__all__)
    assert {"check", "open", "Workbench", "CheckResult", "Store"} <= set(listed.split())
    for name in set(driftline.__all__) - {"__version__"}:
        assert f"\n    {name}(" in help_text or f"\n    class {name}(" in help_text, name


def test_type_checkers_see_the_names_that_are_loaded_on_first_use() -> None:
    tree = ast.parse(Path(driftline.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imported = {
        str(alias.asname): node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == driftline._PUBLIC
    assert sorted([*imported, "__version__"]) == driftline.__all__


@pytest.mark.parametrize("module", [driftline, driftline.testing, driftline.inductor])
def test_every_name_in_dir_can_be_loaded(module: ModuleType) -> None:
    assert dir(module) == sorted(module.__all__)
    for name in dir(module):
        assert getattr(module, name) is not None


def test_the_docstring_has_an_example_that_compiles() -> None:
    shown = [line.removeprefix("    ") for line in (driftline.__doc__ or "").splitlines() if line.startswith("    ")]
    assert len(shown) == 5 and "driftline.check(" in "\n".join(shown)
    ast.parse("\n".join(shown))
    assert "driftline.check" in pydoc.plain(pydoc.render_doc(driftline))


def bug(name: str) -> Bug:
    words = "output: 2 of 3 elements differ " * 20
    return Bug(name, Fingerprint("mock", "RUN", "wrong-value", "x"), Status.NEW, words, "today", "today")


def result_of(*judgements: Judgement, reason: str = "<b>differs</b>\nin the first element") -> CheckResult:
    program = Program("onnx", "onnx", "0" * 64, Path("model.onnx"), "<model>.onnx", (), ("y",))
    targets = [Target(f"target{at}") for at in range(len(judgements))]
    case = Case(program, (Inputs({"x": np.zeros((50, 50), np.float32)}, "example"),), tuple(targets), CheckOptions())
    rows = [
        TargetResult(
            target,
            Execution(str(target), Outcome.OK, Stage.RUN, ({"y": np.zeros((50, 50))},), version="1.0"),
            Verdict(judgement, reason, Kind.WRONG_VALUE if judgement is Judgement.FAIL else None),
        )
        for target, judgement in zip(targets, judgements, strict=True)
    ]
    skipped = (Skipped(Target("absent"), "it is not installed"),)
    bugs = {row.target: bug(f"bug-{row.target}") for row in rows if row.verdict.judgement is Judgement.FAIL}
    return CheckResult(
        CheckOutcome(case, Reference(()), tuple(rows), skipped), bugs, Path("store"), ("A note & more.",)
    )


def test_repr_of_a_check_names_targets_verdicts_and_bugs() -> None:
    result = result_of(Judgement.PASS, Judgement.FAIL)
    assert repr(result) == ("<CheckResult <model>.onnx: target0 pass; target1 fail; absent skipped; bugs: bug-target1>")
    assert repr(result.results[1]) == "<TargetResult target1: fail (wrong-value): <b>differs</b>>"


def test_repr_of_every_result_stays_short() -> None:
    result = result_of(*[Judgement.FAIL] * 60, reason="long " * 500)
    row = result.results[0]
    hunt = HuntResult(Hunt(1, {}, {}, "today", "", 0.0, ""), {f"bug{at}": bug(f"bug{at}") for at in range(99)})
    replay = Replay(bug("bug1"), ReplayAnswer.STILL_FAILS, "long " * 500, row)
    for value in (result, result.outcome, row, row.verdict, row.execution, bug("bug1"), hunt, replay):
        assert len(repr(value)) < SHORT, type(value).__name__
    assert "and 55 more" in repr(result)


def test_notebook_table_shows_each_target_and_escapes_its_words() -> None:
    page = result_of(Judgement.PASS, Judgement.FAIL)._repr_html_()
    assert page.count("<tr>") == 4
    assert "&lt;model&gt;.onnx" in page and "&lt;b&gt;differs&lt;/b&gt;" in page and "<b>" not in page
    assert "A note &amp; more." in page and "bug-target1" in page and "not installed" in page


def test_settings_of_a_check_are_its_keywords_and_shown_by_help() -> None:
    names = {one.name for one in fields(CheckSettings)}
    assert names == set(CheckKeywords.__annotations__)
    shown = inspect.signature(driftline.check).parameters
    assert names | {"program", "example", "store", "plugins"} == set(shown)
    assert shown["timeout"].default == 300.0


def test_settings_of_a_hunt_are_its_keywords_and_shown_by_help() -> None:
    names = {one.name for one in fields(driftline.HuntSettings)}
    assert names == set(HuntKeywords.__annotations__)
    shown = inspect.signature(driftline.Workbench.hunt).parameters
    assert names | {"self", "asked", "spent", "listener"} == set(shown)
    assert shown["timeout"].default == 60.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"inputs": "rndom"}, "Did you mean 'random'"),
        ({"oracle": "allclose:rtol=x"}, "rtol"),
        ({"across": "isaa"}, "Did you mean 'isa'"),
        ({"accept": ["half-acumulation"]}, "Did you mean 'half-accumulation'"),
        ({"dims": {"batch": 0}}, "batch"),
        ({"targets": ["eager:"]}, "eager"),
        ({"lift": True, "reference": "original.onnx"}, "cannot be used with --reference"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_they_are_made(given: dict[str, Any], said: str) -> None:
    with pytest.raises(driftline.DriftlineError, match=said):
        CheckSettings(**given)
