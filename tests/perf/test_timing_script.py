"""The script of a slow program runs without Driftline, and times both sides in turn."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.target import Target
from driftline.measure.estimate import Estimate
from driftline.perf.check import sample_case
from driftline.perf.comparison import SLOW, RatioMeasured, Side
from driftline.perf.recording import record_slow, timing_script
from driftline.perf.result import PerfRow
from driftline.report.export.clean_run import CleanRun
from driftline.report.export.script import Exported
from driftline.store import Store
from driftline.store.reductions import Reductions

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
product (float[256,256] x, float[256,256] w) => (float[256,256] y) { y = MatMul(x, w) }
"""
TEXT = """
import torch

def run(x):
    return torch.ceil(x)

def make():
    return run, (torch.ones(100, 500),)
"""


def script(checker: Checker, place: Path, own: str, other: str, program: str, reduced: str = "") -> Exported:
    """Of a finding as it is kept; what it says was measured is not measured here. `reduced` is said of the smallest
    program."""
    case = sample_case(open_program(program, checker.pool, CheckOptions()), CheckOptions())
    measured = RatioMeasured(Estimate(6.0, 5.0, 7.0), Estimate(6.0, 5.0, 7.0), 6e-3, 1e-3, 20)
    row = PerfRow(own, other, SLOW, (measured, measured), 1.02)
    sides = [Side(case, Target.parse(name), name) for name in (own, other)]
    with Store.create(place / "store") as store:
        bug = record_slow(store, sides[0], sides[1], row, 1.5)
        if reduced:
            Reductions(store).save(bug.id, {"case": bug.findings[0].case_id, "verdict": {"reason": reduced}})
        return timing_script(store, bug)


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    onnx.save(parser.parse_model(MODEL), tmp_path / "model.onnx")
    (tmp_path / "net.py").write_text(TEXT)
    (tmp_path / "place.py").write_text(TEXT.replace("torch.ceil(x)", "x.add_(1)"))
    files = {"onnx": "model.onnx", "torch": "net.py:make", "in place": "place.py:make"}
    return {form: str(tmp_path / name) for form, name in files.items()}


@pytest.mark.parametrize(
    ("own", "other", "form", "calls"),
    [
        ("onnxruntime", "onnxruntime:opt=off", "onnx", "[prepared(model, inputs), other_prepared(model, inputs)]"),
        ("openvino", "eager", "torch", "[prepared(*exported(function, *inputs)), lambda: function(*inputs)]"),
        ("tvm", "onnxruntime", "onnx", "[prepared(model, inputs), other_prepared(model, inputs)]"),
        ("inductor", "eager", "torch", "(torch.compile(run))"),
        ("inductor", "eager", "in place", "lambda: run(*copy.deepcopy(inputs))]"),
        ("inductor:freezing=true", "eager", "torch", "torch._inductor.config.freezing = True"),
    ],
)
def test_both_sides_are_prepared_before_they_are_timed(
    own: str, other: str, form: str, calls: str, checker: Checker, tmp_path: Path, programs: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ran: list[str] = []

    def run(text: str) -> CleanRun:
        ran.append(text)
        return CleanRun(1, "", "BUG: 6.0 times as long", 1.0) if len(ran) == 1 else CleanRun(0, "", "", 1.0)

    monkeypatch.setattr("driftline.report.export.timing.run_clean", run)
    made = script(checker, tmp_path, own, other, programs[form])
    assert made.valid and calls in made.text and made.lines <= 50
    assert f"# {own} takes 6.00x" in made.text
    assert "# dependencies = [" in made.text and "import driftline" not in made.text
    compile(made.text, "script.py", "exec")
    assert len(ran) == 2 and ran[1] != ran[0]  # the other side against itself must not show the bug


def test_the_script_of_a_reduced_program_says_what_was_measured_of_that(
    checker: Checker, tmp_path: Path, programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftline.report.export.timing.run_clean", lambda text: CleanRun(0, "", "", 1.0))
    made = script(checker, tmp_path, "inductor", "eager", programs["torch"], "takes 4.00x as long")
    assert "# inductor takes 4.00x as long" in made.text and "6.00x" not in made.text


def test_what_has_no_script_says_why(checker: Checker, tmp_path: Path, programs: dict[str, str]) -> None:
    made = script(checker, tmp_path, "onnxruntime@1.15.1", "onnxruntime", programs["onnx"])
    assert not made.valid and not made.text and "one release" in made.reason


def test_a_setting_of_the_whole_process_cannot_tell_two_sides_apart(
    checker: Checker, tmp_path: Path, programs: dict[str, str]
) -> None:
    made = script(checker, tmp_path, "inductor:freezing=true", "inductor", programs["torch"])
    assert not made.valid and not made.text and "holds for all that a script compiles" in made.reason


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_slow_product_of_tvm_is_shown_by_a_script_that_was_run(
    checker: Checker, tmp_path: Path, programs: dict[str, str]
) -> None:
    made = script(checker, tmp_path, "tvm", "onnxruntime", programs["onnx"])
    assert made.valid, made.reason
    assert "tvm takes" in made.output and "ms of CPU time, onnxruntime" in made.output
