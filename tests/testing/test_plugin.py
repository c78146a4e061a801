"""A compiler in a plugin file, used as its author would: conformance tests, a bug found in two forms, its report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import onnx
import pytest

from driftline.cli import run
from driftline.core.spelling import spelled_alike
from driftline.store import Store

PLUGIN = """
import numpy as np
from driftline import Backend, register_backend
from driftline.backends._torch import TorchRunner


@register_backend
class Leaky(Backend):
    name = "leaky"
    accepts = ("source:torch", "onnx")
    install = "nothing to install"

    def version(self):
        return "1.0"

    def compile(self, program, options):
        if program.form == "onnx":
            import onnx
            from onnx.reference import ReferenceEvaluator

            model = onnx.load_model_from_string(program.data)
            wrong = any(node.op_type == "Relu" for node in model.graph.node)
            names = [output.name for output in model.graph.output]
            run = lambda arrays: dict(zip(names, ReferenceEvaluator(model).run(None, dict(arrays))))
        else:
            run = TorchRunner(program, program.live.function)
            wrong = True
        return lambda arrays: {n: a * np.array(1.01, a.dtype) if wrong else a for n, a in run(arrays).items()}
"""
SUITE = """
from driftline.testing import BackendConformance


class TestLeaky(BackendConformance):
    backend = "leaky"
    plugins = ("{plugin}",)
"""
TORCH = """
import torch


def program():
    return (lambda x: torch.relu(x)), (torch.tensor([1.5, -2.0, 3.25]),)
"""
MODEL = """
<ir_version: 8, opset_import: ["": 18]>
squash (float[3] x) => (float[3] y) { y = Relu(x) }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "leaky.py").write_text(PLUGIN)
    (tmp_path / "program.py").write_text(dedent(TORCH))
    onnx.save(onnx.parser.parse_model(MODEL), str(tmp_path / "model.onnx"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def suite(folder: Path, plugin: str, chosen: str, cwd: Path) -> str:
    """The last line of pytest's output."""
    (folder / "test_leaky.py").write_text(SUITE.format(plugin=plugin))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "test_leaky.py")]
    done = subprocess.run([*command, "-k", chosen], cwd=cwd, capture_output=True, text=True, timeout=300)
    return done.stdout.splitlines()[-1]


def test_a_relative_plugin_is_found_beside_the_test_file_and_one_that_is_not_there_fails(folder: Path) -> None:
    assert suite(folder, "leaky.py", "twice or declared", folder.parent).startswith("3 passed")
    missing = suite(folder, "moved.py", "twice or declared", folder)
    assert "skipped" not in missing and "passed" not in missing


@pytest.mark.slow
def test_one_bug_in_two_forms_has_one_name_and_a_report(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugin = ["--plugin", "leaky.py", "--store", "store"]
    for program in ("program.py:program", "model.onnx"):
        assert run(["check", program, "--inputs", "random", "--targets", "leaky", *plugin]) == 1
    with Store.open(folder / "store") as store:
        (bug,) = store.bugs()
        assert len(store.bug(bug.id).findings) == 2
    assert run(["replay", bug.id, *plugin]) == 1
    (folder / "leaky.py").rename(folder.parent / "leaky.py")  # the file that the bug remembers is gone
    capfd.readouterr()
    assert (
        run(["export", bug.id, "--as", "issue", "--store", "store", "--plugin", str(folder.parent / "leaky.py")]) == 1
    )
    issue = capfd.readouterr().out
    assert "0 lines" not in issue and "leaky 1.0" in issue
    assert "torch.relu(x)" in issue and "--targets leaky --plugin leaky.py" in issue


@pytest.mark.parametrize(
    ("torch", "other"),
    [
        (["relu_(float)"], ["Relu"]),
        (["linear", "relu"], ["Relu", "Gemm"]),
        (["conv2d", "batch_norm"], ["Conv", "BatchNormalization"]),
        (["mul(softmax(float), float)"], ["Softmax", "Mul"]),
        (["ReLU"], ["Relu"]),
        (["gather"], ["GatherElements"]),
    ],
)
def test_spellings_of_the_same_operators(torch: list[str], other: list[str]) -> None:
    assert spelled_alike(torch) == spelled_alike(other)


def test_other_operators_are_others() -> None:
    assert spelled_alike(["gather"]) != spelled_alike(["Gather"])
    assert spelled_alike(["relu"]) != spelled_alike(["Relu", "Add"])
