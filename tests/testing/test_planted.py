"""The planted bugs are found, each as what it is; and the conformance suite catches them too."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.execution import Outcome
from driftline.core.plugins import load_plugins
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind
from driftline.oracle import time_out
from driftline.testing import PLANTED, conformance, planted_plugin
from driftline.testing.programs import legitimate

REDUCE = "torch_reduction", "onnx_reduction"


@pytest.fixture(scope="session", autouse=True)
def planted() -> None:
    load_plugins([planted_plugin()])


def check(checker: Checker, text: str, target: str, **options: object) -> TargetResult:
    settings = CheckOptions(plugins=(planted_plugin(),), **options)  # type: ignore[arg-type]
    bundle = SourceBundle("model.py", "program", {"model.py": dedent(text)})
    opened = open_source(bundle, checker.pool, settings)
    case = Case(opened.program, (Inputs(opened.example, "example"),), (Target.parse(target),), settings)
    (result,) = checker.check(case).results
    return result


def suite_text(name: str) -> str:
    return next(p.text for p in legitimate(["torch", "onnx"]) if p.name == name)


CONV = ("torch_conv", "onnx_conv")
MATMUL = ("torch_matmul_softmax", "onnx_matmul_softmax")
SPECIAL = ("torch_special_values", "onnx_special_values")

FINDINGS = [
    ("planted-drops-channel", CONV, Kind.WRONG_VALUE),
    ("planted-wrong-axis", REDUCE, Kind.WRONG_SHAPE),
    ("planted-wrong-on", CONV, Kind.WRONG_VALUE),
    ("planted-wrong-on:op=softmax", MATMUL, Kind.WRONG_VALUE),
    ("planted-big-only:elements=10", MATMUL, Kind.WRONG_VALUE),
    ("planted-nan-swallowed", SPECIAL, Kind.WRONG_NONFINITE),
    ("planted-wrong-dtype", MATMUL, Kind.WRONG_DTYPE),
    ("planted-wrong-shape", MATMUL, Kind.WRONG_SHAPE),
    ("planted-input-mutated", MATMUL, Kind.WRONG_STRUCTURE),
    ("planted-segfault", MATMUL, Kind.CRASH),
    ("planted-abort:stage=compile", MATMUL, Kind.CRASH),
]


@pytest.mark.parametrize("form", [0, 1], ids=["torch", "onnx"])
@pytest.mark.parametrize(("target", "names", "kind"), FINDINGS, ids=[target for target, _, _ in FINDINGS])
def test_a_planted_bug_is_found(checker: Checker, target: str, names: tuple[str, str], kind: Kind, form: int) -> None:
    result = check(checker, suite_text(names[form]), target)
    assert (result.verdict.judgement, result.verdict.kind) == (Judgement.FAIL, kind), result.verdict.reason
    assert result.failed_runs == (2, 2)


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("planted-wrong-on:op=tanh", CONV),
        ("planted-wrong-axis", MATMUL),
        ("planted-big-only", MATMUL),
        ("planted-nan-swallowed", MATMUL),
    ],
)
@pytest.mark.parametrize("form", [0, 1], ids=["torch", "onnx"])
def test_a_bug_that_is_not_touched_stays_hidden(
    checker: Checker, target: str, names: tuple[str, str], form: int
) -> None:
    assert check(checker, suite_text(names[form]), target).verdict.judgement is Judgement.PASS


@pytest.mark.parametrize(("stage", "expected"), [("compile", "COMPILE"), ("run", "RUN")])
def test_a_crash_is_placed_in_its_stage(checker: Checker, stage: str, expected: str) -> None:
    result = check(checker, suite_text("torch_zero_d"), f"planted-segfault:stage={stage}")
    assert result.execution.outcome is Outcome.CRASH
    assert result.execution.stage == expected
    assert result.execution.failure is not None
    assert result.execution.failure.type == "SIGSEGV"


def test_hang_is_a_time_out(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is given more time than the user allowed before it is called hanging."""
    monkeypatch.setattr(time_out, "PATIENCE", 6.0)
    result = check(checker, suite_text("torch_zero_d"), "planted-hang", timeout=4.0)
    assert result.verdict.kind is Kind.TIMEOUT
    assert result.verdict.reason.startswith("hangs: no answer within 6")


def test_memory_hog_is_out_of_memory(checker: Checker) -> None:
    result = check(checker, suite_text("torch_zero_d"), "planted-memory-hog", memory_limit=1 << 30, timeout=60.0)
    assert result.verdict.kind is Kind.OOM


def test_flaky_is_told_from_steady(checker: Checker) -> None:
    """Every second run fails, whatever process it is in: the first or the second check meets a failing one."""
    results = [check(checker, suite_text("torch_zero_d"), "planted-flaky") for _ in range(2)]
    failed = [result for result in results if result.verdict.judgement is Judgement.FAIL]
    assert failed
    assert all(result.flaky for result in failed)


def test_gradients_of_a_wrong_operator_are_wrong_too(checker: Checker) -> None:
    text = """
    import torch

    def program():
        return lambda x: torch.relu(x), (torch.tensor([1.0, 2.0, -1.0]),)
    """
    honest, wrong = (
        check(checker, text, target, grad=True).execution.outputs[0]["grad:x"]
        for target in ("planted-wrong-on:op=none", "planted-wrong-on:op=relu")
    )
    assert honest.any()
    np.testing.assert_array_equal(wrong, honest * 2)


def test_the_names_are_those_of_the_plugin() -> None:
    file = BACKENDS.get(PLANTED[0]).__module__  # other tests register backends with such names, too
    registered = [name for name in BACKENDS if name.startswith("planted-")]
    assert sorted(PLANTED) == sorted(name for name in registered if BACKENDS.get(name).__module__ == file)
    assert all(BACKENDS.get(name).name == name for name in PLANTED)


SUITES = """
from driftline.testing import BackendConformance, planted_plugin

class Planted(BackendConformance):
    plugins = (planted_plugin(),)

class TestHonest(Planted):
    backend = "planted-wrong-on"
    options = "op=none"

class TestMutated(Planted):
    backend = "planted-input-mutated"

class TestSegfault(Planted):
    backend = "planted-segfault"

class TestDtype(Planted):
    backend = "planted-wrong-dtype"
    dtypes = ("float64",)

class TestMissing(Planted):
    backend = "no-such-backend"
"""


def test_the_conformance_suite_catches_planted_bugs(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By a pytest inside this one, with warm workers; tests/test_conformance.py has the suite start its own."""
    (tmp_path / "test_suites.py").write_text(SUITES)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(conformance, "_checker", lambda: checker)
    monkeypatch.delitem(sys.modules, "test_suites", raising=False)
    for name in ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    telling = "torch_conv or zero_d or declared or arrays_it or (Segfault and something)"
    command = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--junitxml=report.xml", "-k", telling]
    code = pytest.main([*command, "test_suites.py"])
    sys.modules.pop("test_suites", None)
    assert code == 1, capfd.readouterr()
    failed: dict[str, set[str]] = {}
    for case in ElementTree.parse(tmp_path / "report.xml").iter("testcase"):
        suite = case.attrib["classname"].rpartition(".")[2]
        names = failed.setdefault(suite, set())
        if case.find("failure") is not None or case.find("error") is not None:
            names.add(case.attrib["name"])
    assert failed["TestHonest"] == set()
    assert {
        "test_does_not_change_the_arrays_it_is_given[torch]",
        "test_does_not_change_the_arrays_it_is_given[onnx]",
    } <= (failed["TestMutated"])
    assert "test_runs_correctly_or_declines[torch_conv]" in failed["TestSegfault"]
    assert "test_runs_something" in failed["TestSegfault"]
    assert "test_runs_correctly_or_declines[torch_zero_d]" in failed["TestDtype"]
    assert "test_is_declared_properly" in failed["TestMissing"]
