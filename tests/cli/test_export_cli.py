"""`driftline export` on a real bug of ONNX Runtime: what comes out is run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from driftline.cli import run
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses

MODEL = """
<ir_version: 8, opset_import: ["": 18]>
squash (double[4] x) => (double[4] y) <double low = {-0.5}, double high = {2.0}> {
    positive = Relu(x)
    y = Clip(positive, low, high)
}
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    onnx.save(onnx.parser.parse_model(MODEL), str(folder / "m.onnx"))
    np.savez(folder / "x.npz", x=np.array([-4.0, 0.25, 1.5, 9.0]))
    command = ["check", str(folder / "m.onnx"), "--inputs", str(folder / "x.npz"), "--targets", "onnxruntime"]
    assert run([*command, "--store", str(folder / "store")]) == 1
    return folder / "store"


def export(store: Path, form: str, out: Path, status: int = 0) -> None:
    assert run(["export", "onnxruntime", "--as", form, "--out", str(out), "--store", str(store)]) == status


def test_the_script_is_short_says_what_it_needs_and_runs_by_itself(
    store: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    export(store, "script", tmp_path / "bug.py")
    assert "valid: run in a clean process" in capfd.readouterr().err
    text = (tmp_path / "bug.py").read_text()
    assert text.startswith("# onnxruntime: Relu → Clip of float64 raises") and text.splitlines()[1] == "# /// script"
    assert re.search(r'dependencies = \["numpy==[\d.]+", "onnx==[\d.]+", "onnxruntime==[\d.]+"\]', text)
    assert len([line for line in text.splitlines() if line.strip()]) <= 26
    assert str(store) not in text and "/tmp" not in text and "/home" not in text
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "bug.py")], capture_output=True, text=True, cwd=tmp_path,
        env={"PATH": os.environ["PATH"]}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "BUG: Fail:" in done.stderr and "FuseReluClip" in done.stderr
    assert "expected: [array([0.  , 0.25, 1.5 , 2.  ])]" in done.stdout


def test_the_issue_has_the_projects_headings_and_open_boxes(store: Path, tmp_path: Path) -> None:
    with Store.create(store) as kept:
        (bug,) = kept.bugs()
        trials = [{"release": "1.15.0", "answer": "bad"}, {"release": "1.31.1", "answer": "bad"}]
        found = {"package": "onnxruntime", "summary": "bad in all 2 releases asked", "trials": trials}
        Diagnoses(kept).save(bug.id, "bisect", found)
    export(store, "issue", tmp_path / "issue.md")
    text = (tmp_path / "issue.md").read_text()
    for heading in ("Describe the issue", "To reproduce", "ONNX Runtime Version or Commit ID", "Execution Provider"):
        assert f"### {heading}\n" in text
    assert "- [x] The script runs by itself" in text
    assert "- [x] Releases of onnxruntime: bad in all 2 releases asked\n" in text
    assert "- [ ] Ablation: not done (driftline ablate" in text
    title = text.splitlines()[0].removeprefix("# ")
    assert text.count(f"\n{title}") == 0, "the title is not said again"
    assert "```python\n# onnxruntime: Relu → Clip of float64 raises" in text


def test_one_release_is_no_comparison(store: Path, tmp_path: Path) -> None:
    with Store.create(store) as kept:
        (bug,) = kept.bugs()
        trials = [{"release": "1.15.0", "answer": "skip"}, {"release": "1.31.1", "answer": "bad"}]
        found = {"package": "onnxruntime", "summary": "bad in 1.31.1, the only one", "trials": trials}
        Diagnoses(kept).save(bug.id, "bisect", found)
    export(store, "issue", tmp_path / "issue.md")
    text = (tmp_path / "issue.md").read_text()
    assert f"- [ ] Releases of onnxruntime: bad in 1.31.1, the only one (driftline bisect {bug.id} asks more)" in text


@pytest.mark.parametrize(
    ("form", "out", "told"),
    [
        ("script", "missing/x.py", "there is no folder"),
        ("script", ".", "is a folder; name a file in it, such as"),
        ("json", ".", "bug.json"),
        ("onnx", "taken", "taken is a file; for onnx name a folder"),
        ("onnx", "taken/model", "taken is a file; for onnx name a folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    store: Path, tmp_path: Path, form: str, out: str, told: str, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "taken").write_text("mine")
    monkeypatch.setattr("driftline.store.Store.open", lambda path: pytest.fail("the work was begun"))
    export(store, form, tmp_path / out, status=2)
    said = capfd.readouterr().err
    assert told in said and "Traceback" not in said
    assert (tmp_path / "taken").read_text() == "mine"


def test_the_regression_test_fails_while_the_bug_is_there(store: Path, tmp_path: Path) -> None:
    export(store, "pytest", tmp_path / "test_bug.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "test_bug.py"],
        capture_output=True, text=True, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert "1 failed" in done.stdout
    assert "relu_clip_fusion" in done.stdout


def test_the_model_comes_with_its_inputs_and_results(store: Path, tmp_path: Path) -> None:
    export(store, "onnx", tmp_path / "model")
    model = onnx.load(str(tmp_path / "model" / "model.onnx"))
    data = tmp_path / "model" / "test_data_set_0"
    given, right = (
        numpy_helper.to_array(onnx.TensorProto.FromString((data / f"{name}_0.pb").read_bytes()))
        for name in ("input", "output")
    )
    np.testing.assert_array_equal(ReferenceEvaluator(model).run(None, {"x": given})[0], right)
    np.testing.assert_array_equal(np.load(tmp_path / "model" / "inputs.npz")["x"], given)


def test_json_has_everything(store: Path, tmp_path: Path) -> None:
    export(store, "json", tmp_path / "bug.json")
    found = json.loads((tmp_path / "bug.json").read_text())
    assert found["schema"] == 1 and found["script"]["valid"] is True
    assert found["kind"] == "error" and found["bug"]["id"].startswith("onnxruntime-")


def test_a_script_that_does_not_show_the_bug_is_called_invalid(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiler that is wrong in our plug-in only: no script can run it."""
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(MODEL), "m.onnx")
    planted = "driftline/testing/planted.py"
    plugin = str(Path(__file__).parents[2] / "src" / planted)
    assert run(["check", "m.onnx", "--targets", "planted-wrong-shape", "--inputs", "random", "--plugin", plugin]) == 1
    assert run(["export", "planted", "--as", "script"]) == 1
    streams = capfd.readouterr()
    assert "not valid" in streams.err and "has no call that is short enough" in streams.err
    assert "# NOT VALID: " in streams.out


def test_what_is_no_onnx_program_has_no_model(capfd: pytest.CaptureFixture[str], store: Path) -> None:
    assert run(["export", "nothing", "--store", str(store)]) == 2
    assert "There is no bug 'nothing'" in capfd.readouterr().err
