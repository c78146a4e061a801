"""A vendor's one file gives more than verdicts: a script, an issue text for the vendor's tracker, and a ladder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from driftline.cli import run
from driftline.store import Store

PLUGIN = '''
import numpy as np
from driftline import Backend, Option, ScriptCall, Tracker, register_backend

SCRIPT = """\\
def leaky(model, inputs):
    results = reference.ReferenceEvaluator(model).run(None, inputs)
    return [x * np.array({factor}, x.dtype) for x in results]
"""


@register_backend
class Leaky(Backend):
    name = "leaky"
    accepts = ("onnx",)
    module = "onnx"
    distribution = "onnx"
    options = {"opt": Option("optimisation level", ("0", "1", "2"), "2")}
    tracker = Tracker(
        "https://leaky.example/bugs",
        (("Summary", "{description}"), ("Leak", "{reproducer}"), ("Chip", "{version} on {system}")),
    )

    def compile(self, program, options):
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(program.model())
        names, factor = evaluator.output_names, float(self.factor(options))
        return lambda arrays: {
            name: x * np.array(factor, x.dtype) for name, x in zip(names, evaluator.run(None, dict(arrays)))
        }

    def factor(self, options):
        return "1.01" if options.get("opt", "2") == "2" else "1.0"

    def script_calls(self, framework, options):
        if framework != "onnx":
            return []
        text = SCRIPT.format(factor=self.factor(options))
        return [ScriptCall("leaky(model, inputs)", text, packages=("onnx",))]

    def settings_text(self, options):
        return f"LEAKY_OPT={options['opt']}" if "opt" in options else ""
'''
MODEL = """
<ir_version: 8, opset_import: ["": 18]>
squash (float[3] x) => (float[3] y) { y = Relu(x) }
"""
TORCH = """
import torch


def program():
    return (lambda x: torch.relu(x)), (torch.tensor([1.5, -2.0, 3.25]),)
"""
KEPT = ["--store", "store"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaky.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)


def found_in(program: str) -> str:
    given = ["--inputs", "random", "--targets", "leaky", "--plugin", "leaky.py"]
    assert run(["check", program, *given, *KEPT]) == 1
    with Store.open(Path("store")) as store:
        (bug,) = store.bugs()
    return bug.id


def test_a_vendor_gets_a_ladder_a_script_and_an_issue(capfd: pytest.CaptureFixture[str]) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), "model.onnx")
    bug = found_in("model.onnx")
    assert run(["ablate", bug, *KEPT]) == 1
    capfd.readouterr()
    assert run(["localize", bug, "--json", *KEPT]) == 1
    ladder = json.loads(capfd.readouterr().out)["ladder"]
    assert [(rung["target"], rung["answer"]) for rung in ladder] == [
        ("leaky:opt=0", "pass"),
        ("leaky:opt=1", "pass"),
        ("leaky", "same"),
    ]

    assert run(["export", bug, "--as", "script", "--out", "bug.py", *KEPT]) == 0
    done = subprocess.run([sys.executable, "bug.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr
    fixed = Path("bug.py").read_text().replace("1.01", "1.0")
    assert "driftline" not in fixed and "def leaky(model, inputs):" in fixed
    Path("fixed.py").write_text(fixed)
    assert subprocess.run([sys.executable, "fixed.py"], timeout=120).returncode == 0

    assert run(["export", bug, "--as", "issue", *KEPT]) == 0
    captured = capfd.readouterr()
    assert [line for line in captured.out.splitlines() if line.startswith("### ")] == [
        "### Summary",
        "### Leak",
        "### Chip",
    ]
    assert "open issues at https://leaky.example/bugs" in captured.out and "`LEAKY_OPT=" in captured.out
    assert "return [x * np.array(1.01, x.dtype) for x in results]" in captured.out
    assert "Report it at https://leaky.example/bugs" in " ".join(captured.err.split())


@pytest.mark.slow
def test_a_torch_program_is_exported_in_the_script_of_a_compiler_for_onnx() -> None:
    Path("program.py").write_text(TORCH)
    bug = found_in("program.py:program")
    assert run(["export", bug, "--as", "pytest", "--out", "test_bug.py", *KEPT]) == 0
    assert "leaky(model, inputs)" in Path("test_bug.py").read_text()
