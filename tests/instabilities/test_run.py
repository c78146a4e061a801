"""Runs of models: what is written, what becomes a finding, and that a killed run goes on."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftline.cli import run
from driftline.execute.pool import Pool
from driftline.generate.graph import TensorType
from driftline.inputs.foreign.ktest import write_ktest
from driftline.instabilities.compose import compose
from driftline.instabilities.models import write_models
from driftline.instabilities.operations import parse_operations
from driftline.instabilities.records import RunFolder
from driftline.store import Store
from driftline.testing import planted

FRAMEWORKS = "pytorch,onnx,planted-nan-swallowed,tensorrt"


@pytest.fixture(scope="module")
def models(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("composed") / "models"
    write_models(
        pool, folder, compose(parse_operations("log,div"), 1, every=True, tensor=TensorType("float32", (4, 8))), {}
    )
    return folder


def words(models: Path, tmp_path: Path, *more: str) -> list[str]:
    places = ["--models", str(models), "--out", str(tmp_path / "run"), "--store", str(tmp_path / "store")]
    return ["instabilities", *places, "--plugin", planted.__file__, *more]


def test_a_run_counts_finds_and_is_written_down(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words(models, tmp_path), "--frameworks", FRAMEWORKS, "--json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert [one["target"] for one in body["skipped"]] == ["tensorrt"]
    rows = {(row["model"], row["framework"]): row for row in body["rows"]}
    assert len(rows) == 3 * 3
    honest, swallowed = rows["log", "pytorch"], rows["log", "planted-nan-swallowed"]
    assert honest["nan"] > 0
    assert honest["verdict"] != "fail"
    assert not honest["bugs"]
    assert swallowed["nan"] == 0
    assert swallowed["verdict"] == "fail"

    with Store.open(tmp_path / "store") as store:  # a disagreement between runtimes is a finding like any other
        bugs = {bug.id: bug for bug in store.bugs()}
    assert set(bugs) == set(body["bugs"])
    assert all(bug.fingerprint.backend == "planted-nan-swallowed" for bug in bugs.values())
    assert swallowed["bugs"] in bugs

    record = RunFolder(tmp_path / "run").read("log")
    assert record
    assert {name for conflict in record.conflicts for name in conflict.nan} == {"pytorch", "onnx"}
    assert {name for conflict in record.conflicts for name in conflict.finite} == {"planted-nan-swallowed"}
    with open(tmp_path / "run" / "summary.csv") as file:
        table = list(csv.DictReader(file))
    assert {(row["model"], row["framework"]) for row in table} == set(rows)
    page = (tmp_path / "run" / "summary.md").read_text()
    assert "## Where runtimes disagree" in page
    assert swallowed["bugs"] in page
    assert "tensorrt" in page

    with np.load(tmp_path / "run" / "inputs" / "log" / "0.npz") as held:  # what it was run on
        assert held["x0"].shape == (4, 8)
        assert np.isfinite(held["x0"]).all()
        assert (held["x0"] < 0).any()


def test_killed_it_goes_on_where_it_was(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], eventually: Callable[..., None]
) -> None:
    command = [*words(models, tmp_path), "--frameworks", "onnx,onnx-reference", "--jobs", "1"]
    process = subprocess.Popen([sys.executable, "-m", "driftline", *command], stderr=subprocess.DEVNULL)
    written = tmp_path / "run" / "models"
    eventually(lambda: any(written.glob("*.json")) or process.poll() is not None, 120)
    process.send_signal(signal.SIGKILL)
    process.wait()
    more = [word.replace("onnx-reference", "onnx-reference,onnxruntime:opt=off") for word in command]
    assert run([*more, "--json"]) == 0  # with a further framework
    body = json.loads(capsys.readouterr().out)
    assert 0 < body["resumed"] <= 6
    assert len(body["rows"]) == 9
    assert all(row["inputs"] == 3 for row in body["rows"])


def test_anybodys_files_are_run_on_anybodys_numbers(models: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name in ("log", "div"):
        (own / f"{name}.onnx").write_bytes((models / f"{name}.onnx").read_bytes())
    given = tmp_path / "numbers.ktest"  # of KLEE, as anybody has them
    given.write_bytes(write_ktest({"input": np.array([0.0, -1.0, 4.0], "<f4").tobytes()}))
    command = [*words(own, tmp_path), "--inputs", str(given), "--spec", "input:float32[3]", "--frameworks", "onnx"]
    assert run(command) == 0
    records: dict[str, Any] = {record.model: record for record in RunFolder(tmp_path / "run").records()}
    counts = records["log"].runtimes[0].rows[0].counts
    assert (counts.elements, counts.nan, counts.inf) == (32, 11, 11)  # of 32 numbers: 0, -1, 4, 0, -1, ...
    assert records["div"].inputs == ("numbers of numbers.ktest",)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--models": "nowhere"}, "there is no such folder"),
        ({"--inputs": "symbolik"}, "Did you mean 'symbolic'"),
        ({"--frameworks": "pytorhc"}, "Did you mean 'pytorch'"),
        ({"--frameworks": "tensorrt"}, "None of the frameworks is available"),
        ({"--frameworks": "onnx:opt=7"}, "opt=7 is not valid"),
        ({"--budget": "soon"}, "--budget soon"),
        ({"--out": "."}, "the folder is not empty"),
    ],
)
def test_a_mistake_is_one_sentence(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "something").write_text("mine")
    given = {"--models": str(models), "--out": "run", "--store": "store", **change}
    assert run(["instabilities", *(word for pair in given.items() for word in pair)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_a_run_with_other_settings_is_refused(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps({"schema": 1, "models": "other", "seed": 0}))
    assert run([*words(models, tmp_path), "--frameworks", "pytorch"]) == 2
    assert "another models and inputs" in capsys.readouterr().err


def test_a_damaged_metadata_file_is_one_sentence(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("{", "[]", '{"models": [{"name": "../x", "files": {"source": "a", "onnx": "b"}}]}'):
        (tmp_path / "metadata.json").write_text(text)
        assert run([*words(tmp_path, tmp_path / "elsewhere"), "--frameworks", "pytorch"]) == 2
        assert "is not what `driftline compose` writes" in capsys.readouterr().err
