"""One stage is at fault, and it is named: kernels, decompositions, lowerings, the exporter or an optimiser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from driftline.campaign.check.session import check_program
from driftline.checking.checker import Checker
from driftline.checking.kernels import same_failure
from driftline.checking.open import open_program
from driftline.checking.result import CheckResult
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import Element, Evidence
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.plugins import load_plugins
from driftline.core.target import parse_targets
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.store import Store
from typed import typed

HERE = Path(__file__).parent
PLUGIN = str(HERE / "faulty_stages.py")
PROGRAMS = HERE / "faulty_programs.py"


def check(checker: Checker, store: Path, program: str, targets: str) -> CheckResult:
    load_plugins([PLUGIN])
    options = CheckOptions(plugins=(PLUGIN,))
    with Store.create(store) as kept:
        opened = open_program(f"{PROGRAMS}:{program}", checker.pool, options)
        return check_program(checker, kept, opened, targets=parse_targets(targets), options=options)


@pytest.mark.parametrize(
    ("program", "targets", "culprit"),
    [
        ("kernel_value", "torchscript,eager", "eager"),
        ("kernel_nan", "aot_eager", "eager"),
        ("kernel_row", "aot_eager_decomp,torchscript", "eager"),
        ("cosh", "planted-decomposition", "planted-decomposition"),
        ("log1p", "planted-decomposition", "planted-decomposition"),
        ("erf", "planted-decomposition", "planted-decomposition"),
        ("both", "planted-decomposition", "planted-decomposition"),
        ("sinh", "onnxruntime,planted-optimiser", "torch.onnx"),
        ("acos", "onnxruntime", "torch.onnx"),
        ("atan", "planted-optimiser", "planted-optimiser"),
        ("floor", "planted-optimiser", "planted-optimiser"),
        ("neg", "planted-optimiser", "planted-optimiser"),
        ("atan_and_sinh", "planted-optimiser", "planted-optimiser"),
        ("atan_and_sinh", "onnxruntime", "torch.onnx"),
        pytest.param("relu", "inductor:inject_relu_bug=accuracy", "inductor", marks=pytest.mark.slow),
    ],
)
def test_the_stage_at_fault_is_named(
    checker: Checker, store_folder: Path, program: str, targets: str, culprit: str
) -> None:
    result = check(checker, store_folder, program, targets)
    assert {row.verdict.judgement for row in result.results} == {Judgement.FAIL}
    assert {bug.fingerprint.backend for bug in result.bugs.values()} == {culprit}
    assert len({bug.id for bug in result.bugs.values()}) == 1, "it is filed once"
    assert len(result.bugs) == len(result.results)


def test_other_stages_are_right_about_the_same_programs(checker: Checker, store_folder: Path) -> None:
    """What is named above is at fault and nothing else: without it, the programs pass."""
    for program, targets in (("cosh", "aot_eager,torchscript"), ("atan", "onnxruntime,planted-optimiser:opt=off")):
        assert not check(checker, store_folder, program, targets).bugs


def test_run_that_ends_when_it_is_given_more_time_is_inconclusive(checker: Checker, tmp_path: Path) -> None:
    load_plugins([PLUGIN])
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { y = Abs(x) }'
    )
    onnx.save(model, tmp_path / "abs.onnx")
    options = CheckOptions(plugins=(PLUGIN,), timeout=3.0)
    opened = open_program(str(tmp_path / "abs.onnx"), checker.pool, CheckOptions())
    case = Case(opened.program, (Inputs({"x": np.ones(3, np.float32)}, "example"),), parse_targets("slow-run"), options)
    (row,) = checker.check(case).results
    assert (row.execution.outcome, row.verdict.judgement) == (Outcome.TIMEOUT, Judgement.INCONCLUSIVE)


def test_a_bug_of_eager_is_replayed_on_eager(checker: Checker, store_folder: Path) -> None:
    (bug,) = check(checker, store_folder, "kernel_value", "torchscript").bugs.values()
    assert [finding.target for finding in bug.findings] == ["eager"]
    assert bug.fingerprint.stage == Stage.RUN
    ran = typed("replay", bug.id, "--store", str(store_folder))
    assert "still fails" in ran.stdout, ran.stdout + ran.stderr


def test_a_row_says_that_eager_is_wrong_in_the_same_way(store_folder: Path) -> None:
    ran = typed("check", f"{PROGRAMS}:kernel_row", "--targets", "torchscript", "--store", str(store_folder))
    assert ran.returncode == 1
    assert "it is a bug of eager, not of the compiler" in " ".join(ran.stdout.split())


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [(3.0, 3.0, True), (3.0, 3.01, True), (3.0, 5.0, False), (3.0, 1.0, False), (3.0, np.nan, False),
     (np.nan, np.nan, True), (np.inf, np.inf, True), (np.inf, -np.inf, False)],
)  # fmt: skip
def test_failures_are_the_same_where_the_wrong_numbers_are(mine: float, theirs: float, same: bool) -> None:
    evidence = Evidence(sample=0, output="y", worst=(Element((1,), 1.0, mine),))
    verdict = Verdict(Judgement.FAIL, "", Kind.WRONG_VALUE, evidence)
    first, second = (
        Execution("x", Outcome.OK, Stage.RUN, outputs=({"y": np.array([1.0, number])},)) for number in (mine, theirs)
    )
    assert same_failure(verdict, first, verdict, second) is same
