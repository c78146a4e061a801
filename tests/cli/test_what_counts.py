"""What decides the exit code of a check: `--accept`, `--fail-on`, `--baseline`, the project file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from driftline.cli import run
from driftline.testing import planted

PLUGIN = Path(__file__).parents[1] / "checking" / "precise_compilers.py"
PROGRAMS = """
import torch

class Scores(torch.nn.Linear):
    def forward(self, x):
        return {"logits": super().forward(x)}

def product():
    torch.manual_seed(0)
    return Scores(512, 16).half().eval(), (torch.rand(8, 512).half(),)

def restless():
    torch.seed()
    return torch.nn.Linear(2, 2), (torch.ones(1, 2),)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "programs.py").write_text(PROGRAMS)
    relu = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    model = helper.make_model(relu, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (tmp_path / "relu.onnx").write_bytes(model.SerializeToString())
    return tmp_path


def check(arguments: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], str]:
    code = run(["check", *arguments.split(), "--json"])
    out, err = capfd.readouterr()
    return code, json.loads(out), err


@pytest.mark.slow
def test_the_person_decides(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lossy = f"programs.py:product --targets sums-in-half --plugin {PLUGIN}"
    assert run(["check", *lossy.split()]) == 0
    seen = " ".join(capfd.readouterr().out.split())
    assert "reduced-precision" in seen and "agrees if it may accumulate in float16; the top-1 class" in seen
    assert "Accept it with --accept sums-in-half=half-accumulation" in seen and "1 reduced-precision." in seen

    (folder / "driftline.toml").write_text('fail_on = ["fail", "reduced-precision"]\nstore = "kept"\n')
    code, found, said = check(lossy, capfd)
    (row,) = found["results"]
    assert code == 1 and f"settings from {folder / 'driftline.toml'}" in said
    assert found["store"] == str(folder / "kept")
    assert [bug["id"] for bug in found["bugs"]] == [row["bug"]], "what counts is kept"
    assert row["effect"]["rows"] == 8 and row["evidence"]["policies"] == ["half-accumulation"]

    (folder / "old.json").write_text(json.dumps(found))
    (folder / "driftline.toml").write_text('accept = {sums-in-half = ["half-accumulation"]}\n')
    code, found, _ = check(f"{lossy} --fail-on reduced-precision --baseline old.json", capfd)
    assert (code, found["results"][0]["verdict"], found["baseline"]["fixed"]) == (0, "pass", [])
    assert found["results"][0]["reason"] == "agrees; accumulates in float16, as accepted"
    code, found, _ = check(f"{lossy} --accept reduced-precision --fail-on reduced-precision", capfd)
    assert (code, found["results"][0]["reason"]) == (0, "agrees; accumulates in float16, as accepted")
    code, found, _ = check(f"{lossy} --accept none --fail-on reduced-precision --baseline old.json", capfd)
    assert (code, found["baseline"]["known"], found["results"][0]["known"]) == (0, ["sums-in-half"], True)


def test_nothing_compared_is_not_clean(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("check programs.py:restless --targets eager".split()) == 5
    assert capfd.readouterr().out.splitlines()[-1] == "1 inconclusive: nothing was compared."
    code, found, _ = check("programs.py:restless --targets eager --fail-on inconclusive", capfd)
    assert (code, found["compared"]) == (1, False)


def test_what_is_new_against_a_baseline(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    targets = "planted-wrong-on,planted-wrong-shape,planted-big-only"
    wrong = f"relu.onnx --inputs random --plugin {planted.__file__} --targets {targets}"
    code, found, _ = check(wrong, capfd)
    known, new, fixed = found["results"]
    assert (code, known["verdict"], new["verdict"], fixed["verdict"]) == (1, "fail", "fail", "pass")
    fixed.update(verdict="fail", bug="planted-big-only-12345678")  # as if it had been wrong before
    found["results"] = [known, fixed]
    (folder / "old.json").write_text(json.dumps(found))
    assert run(["check", *wrong.split(), "--baseline", "old.json"]) == 1
    out = capfd.readouterr().out
    assert "Against old.json: 1 new, 1 known; fixed: planted-big-only." in out
    assert "known" in next(line for line in out.splitlines() if line.startswith("planted-wrong-on"))
    assert out.splitlines()[-1].startswith("1 pass, 1 fail, 1 known failure.")


def test_a_hunt_that_judges_nothing_is_not_clean(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "old.json").write_text(json.dumps({"bugs": [{"id": "declines-12345678"}]}))
    hunt = f"hunt --programs 4 --generators graph --targets declines --plugin {PLUGIN} --baseline old.json"
    assert run(hunt.split()) == 5
    out = capfd.readouterr().out
    assert "Nothing was compared: no program came to a verdict." in out
    assert out.splitlines()[-1] == "Against old.json: 0 new, 0 known, 1 not seen again."


SETTINGS = [
    ("targets = 3", "driftline.toml: targets must be a list of names"),
    ("target = ['eager']", "there is no setting 'target'. Did you mean 'targets'"),
    ("timeout = 'long'", "timeout must be a number of seconds"),
    ("accept = {eager = ['half']}", "there is no arithmetic 'half'. Did you mean"),
    ("accept = {eeger = ['tf32']}", "there is no backend 'eeger'. Did you mean 'eager'"),
    ("fail_on = ['failed']", "there is no such verdict. Did you mean 'fail'"),
    ("store = 1", "store must be a folder"),
    ("= 1", "Correct it there, or remove the file"),
]


@pytest.mark.parametrize(("text", "words"), SETTINGS, ids=[text for text, _ in SETTINGS])
def test_bad_settings(text: str, words: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "driftline.toml").write_text(text)
    assert run("check relu.onnx --targets onnxruntime".split()) == 2
    said = capfd.readouterr().err
    assert words in said and "driftline.toml" in said and "Traceback" not in said


def test_an_unknown_target_of_the_settings(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "driftline.toml").write_text("targets = ['onnxrutime']")
    assert run("check relu.onnx".split()) == 2
    (said,) = [line for line in capfd.readouterr().err.splitlines() if "Did you mean 'onnxruntime'" in line]
    assert f"{folder / 'driftline.toml'}: targets:" in said


def test_options_without_effect_are_named(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = onnx.load(str(folder / "relu.onnx"))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.INT32
    onnx.save(model, str(folder / "integers.onnx"))
    idle = "integers.onnx --targets onnxruntime --lift --accept openvino=half-accumulation --inputs specials"
    notes = " ".join(check(idle, capfd)[1]["notes"])
    assert "--lift changed nothing: integers.onnx has no input or result in half precision." in notes
    assert "--accept openvino=half-accumulation changed nothing: openvino is not among the targets" in notes
    assert "No special floats (NaN, infinities, signed zeros) were placed" in notes
    useful = "relu.onnx --targets onnxruntime --accept onnxruntime=half-accumulation --inputs specials"
    notes = " ".join(check(useful, capfd)[1]["notes"])
    assert "changed nothing" not in notes and "No special" not in notes


def test_settings_in_pyproject(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_text('[tool.driftline]\ntargets = ["onnxruntime:opt=off", "eager"]\n')
    code, found, said = check("relu.onnx", capfd)
    assert (code, [row["target"] for row in found["results"]]) == (0, ["onnxruntime:opt=off"])
    assert "settings from" in said and "pyproject.toml" in said
    assert [skipped["target"] for skipped in found["skipped"]] == ["eager"], "it takes no ONNX models"
