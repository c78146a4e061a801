"""Bugs that show in a later call only: their scripts compile once, call as often as it takes, and need no Driftline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import find_failing
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.cli import run
from driftline.core.case import CheckOptions, Inputs
from driftline.core.plugins import load_plugins
from driftline.core.processor import ARM, this_processor
from driftline.core.target import Target
from driftline.report.export.clean_run import run_clean
from driftline.report.export.script import Exported, export_script, export_test
from driftline.report.export.subject import Subject
from driftline.report.gather import gather
from driftline.report.scripts.check import check_for
from driftline.report.scripts.later_call import later_call_recipe
from driftline.report.scripts.recipe import Check
from driftline.report.scripts.render import check_script
from driftline.store import Store

PLUGIN = str(Path(__file__).with_name("stale_compilers.py"))
DOUBLE = """
import numpy as np
from onnx import parser


def program():
    text = '<ir_version: 8, opset_import: ["": 18]> g (float[3] x) => (float[3] y) { y = Add(x, x) }'
    return parser.parse_model(text), {"x": np.array([3, 1, np.nan], np.float32)}
"""
TORCH_DOUBLE = """
import torch


def double(x):
    return x + x


def program():
    return double, (torch.tensor([3.0, 1.0, 2.0]),)
"""
JAX = """
import jax.numpy as jnp


def double(x):
    return x + x


def program():
    return double, (jnp.ones(3),)
"""
TRANSPOSED = """
import numpy as np
from onnx import parser


def program():
    text = '''<ir_version: 8, opset_import: ["": 18]>
g (float[1,1,1,1] x, float[1,1,1,2] w) => (float[1,1,1,2] y) { y = ConvTranspose(x, w) }'''
    return parser.parse_model(text), {"x": np.ones((1, 1, 1, 1), np.float32), "w": np.float32([[[[2, 3]]]])}
"""


@pytest.fixture(autouse=True)
def plugin() -> None:
    load_plugins([PLUGIN])


def found(text: str, target: str, folder: Path, checker: Checker) -> Subject:
    """The bug that a check of this program shows."""
    (folder / "p.py").write_text(text)
    assert run(f"check {folder}/p.py:program --targets {target} --store {folder}/store --plugin {PLUGIN}".split()) == 1
    with Store.open(folder / "store") as store:
        return subject_of(store, checker, find_failing(target, store, checker))


def is_seen_without_driftline(exported: Exported) -> bool:
    assert exported.valid, exported.reason
    assert "driftline" not in exported.text.lower()
    return run_clean(exported.text).shows_bug


def on_another(subject: Subject, target: str) -> str:
    """The same script for another compiler."""
    recipe = later_call_recipe(subject.case.program, subject.case.samples[:2], Target.parse(target))
    assert recipe
    return check_script(recipe, check_for(subject.failing(), recipe))


def test_a_model_is_compiled_once_and_called_again(tmp_path: Path, checker: Checker) -> None:
    subject = found(DOUBLE, "stale-model", tmp_path, checker)
    assert subject.after_another_call
    exported = export_script(subject)
    assert is_seen_without_driftline(exported)
    assert ": Add in a later call loses NaN" in exported.text
    assert exported.text.count("compile_once(model, inputs)") == 2 and exported.text.count("\ninputs = {") == 2
    sound = run_clean(on_another(subject, "onnxruntime"))
    assert sound.status == 0 and not sound.output, sound.errors
    shown = next(bug.script for bug in gather(tmp_path / "store").bugs)
    assert "compiled = compile_once(model, inputs)" in shown and "# A first call is right" not in shown


@pytest.mark.slow
def test_a_torch_program_is_compiled_once_and_called_again(tmp_path: Path, checker: Checker) -> None:
    subject = found(TORCH_DOUBLE, "stale-graph", tmp_path, checker)
    exported = export_script(subject)
    assert is_seen_without_driftline(exported)
    assert exported.text.count("torch.compile(double, backend=stale)") == 1
    sound = run_clean(on_another(subject, "inductor"))
    assert sound.status == 0 and not sound.output, sound.errors


def test_what_a_later_call_raises_has_a_script(tmp_path: Path, checker: Checker) -> None:
    subject = found(DOUBLE, "breaks-when-called-again", tmp_path, checker)
    exported = export_script(subject)
    assert is_seen_without_driftline(exported)
    assert "the workspace was given back" in exported.text


def test_a_regression_test_calls_again_too(tmp_path: Path, checker: Checker) -> None:
    exported = export_test(found(DOUBLE, "stale-model", tmp_path, checker))
    assert exported.valid, exported.reason


def test_without_a_call_that_compiles_only_the_reason_is_said(tmp_path: Path, checker: Checker) -> None:
    exported = export_script(found(DOUBLE, "stale-in-one-call", tmp_path, checker))
    assert not exported.valid
    assert exported.reason == "it ends with 0: the bug shows in a later call, which driftline replay makes"
    assert gather(tmp_path / "store").bugs[0].script.startswith("# A first call is right")


@pytest.mark.skipif(this_processor().machine != ARM, reason="OpenVINO keeps the first weights on Arm alone")
def test_openvino_keeps_the_weights_of_the_first_call(tmp_path: Path, checker: Checker) -> None:
    subject = found(TRANSPOSED, "openvino", tmp_path, checker)
    assert is_seen_without_driftline(export_script(subject))
    assert run_clean(on_another(subject, "onnxruntime")).status == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "target"), [*((DOUBLE, name) for name in ("onnxruntime:opt=off", "openvino", "iree", "tvm")), (JAX, "xla")]
)
def test_sound_compilers_pass_in_both_calls(tmp_path: Path, checker: Checker, text: str, target: str) -> None:
    (tmp_path / "p.py").write_text(text)
    program = open_program(f"{tmp_path}/p.py:program", checker.pool, CheckOptions()).program
    calls = [Inputs({"x": np.float32(values)}, "given") for values in ([3, 1, 2], [5, 7, 11])]
    recipe = later_call_recipe(program, calls, Target.parse(target))
    assert recipe
    lines = ("assert [*map(float, GOT[0])] == [10, 14, 22]", "print('right')")
    ran = run_clean(check_script(recipe, Check(lines=lines)))
    assert ran.status == 0 and "right" in ran.output, ran.errors
