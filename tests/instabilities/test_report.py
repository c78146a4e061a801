"""Several runs in one report: the table, what changed, and pictures that hold something."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from driftline.cli import run
from driftline.core.case import CheckOptions, Inputs
from driftline.core.tensors import TensorSpec
from driftline.execute.pool import Pool
from driftline.inputs.make import InputMaker
from driftline.instabilities.breaking import POINTS, MapModel, draw_map, measure_map
from driftline.instabilities.compose import compose
from driftline.instabilities.counting import Counts
from driftline.instabilities.frameworks import parse_frameworks
from driftline.instabilities.models import read_models, write_models
from driftline.instabilities.operations import parse_operations
from driftline.instabilities.records import InputRow, ModelRecord, RunFolder, RuntimeRecord
from driftline.instabilities.samples import edge_values, special_samples

PNG = b"\x89PNG"


def write_run(folder: Path, nan: int) -> Path:
    """A run as `driftline instabilities` leaves it."""
    made = RunFolder(folder)
    made.begin({"models": "m", "inputs": "specials", "seed": 0}, {"folder": str(folder / "gone"), "source": "specials"})
    for number in range(3):
        counts = Counts(8, nan=nan if number == 0 else 0, inf=number, worst_error=10.0**-number)
        failed = InputRow(0, "error", verdict="fail", kind="error", reason="RuntimeError: no")
        record = ModelRecord(f"m{number}", expression=f"exp(x{number})", inputs=("specials: edges",))
        record = record.with_runtime(RuntimeRecord("tvm", "tvm", "0.2", (failed,)))
        record = record.with_runtime(RuntimeRecord("pytorch", "eager", "2", (InputRow(0, "ok", counts, "pass"),)))
        made.write(record)
    return folder


def test_runs_are_put_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = write_run(tmp_path / "before", nan=2), write_run(tmp_path / "after", nan=5)
    command = ["instabilities", "report", "--runs", str(before), str(after), "--out", str(tmp_path / "report")]
    assert run([*command, "--no-map", "--json"]) == 0
    files = [Path(name) for name in json.loads(capsys.readouterr().out)["files"]]
    pictures = [file for file in files if file.suffix == ".png"]
    assert len(pictures) == 6
    assert all(file.read_bytes().startswith(PNG) for file in pictures)
    with open(tmp_path / "report" / "summary.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 2
    found = {(row["run"], row["model"], row["framework"]): row for row in rows}
    assert found["after", "m0", "pytorch"]["nan"] == "5"
    assert found["before", "m0", "tvm"]["errors"] == "1"
    page = (tmp_path / "report" / "summary.md").read_text()
    assert "| after | m0 | pytorch | 2 NaN" in page
    assert "m1 | pytorch" not in page.partition("What changed")[2]


def test_models_that_are_gone_have_no_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "run", nan=1)
    assert run(["instabilities", "report", "--runs", str(folder), "--out", str(tmp_path / "report")]) == 0
    assert "No map of the input space was drawn" in capsys.readouterr().out


def test_a_map_shows_where_a_quotient_breaks(pool: Pool, tmp_path: Path) -> None:
    models = tmp_path / "models"
    write_models(pool, models, compose(parse_operations("div"), 1, every=True), {})
    (model,) = [one for one in read_models(models) if one.name == "div"]
    found = measure_map(pool, MapModel(model, tuple(parse_frameworks("onnx"))), CheckOptions(timeout=60.0))
    panel, zero = found.panels["onnx"], POINTS // 2
    assert panel.shape == (POINTS, POINTS)
    assert panel[zero, zero] == 4  # zero by zero is NaN
    assert all(panel[zero, at] == 3 for at in range(POINTS) if at != zero)  # anything else by zero is infinite
    assert panel[-1, -1] == 0  # the largest by the largest
    assert panel[-1, zero + 1] == 2  # a tiny number by the largest
    assert draw_map(found).startswith(PNG)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--runs", "nowhere"], "there is no such folder"),
        (["--runs", "."], "not a run of `driftline instabilities`"),
        (["--runs", "run", "--map", "m9"], "no such model"),
        (["--runs", "run", "--map", "m1", "--no-map"], "not both"),
    ],
)
def test_a_mistake_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", nan=1)
    (tmp_path / "run" / "gone").mkdir()
    (tmp_path / "run" / "gone" / "other.onnx").write_bytes(b"")
    assert run(["instabilities", "report", *given, "--out", "report"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_only_the_first_special_input_has_subnormal_numbers() -> None:
    maker = InputMaker(tuple(TensorSpec(name, "float32", (16, 8)) for name in ("x0", "x1")), {})
    edges, *others = special_samples(maker, 0)
    smallest = np.finfo(np.float32).smallest_normal

    def subnormal(sample: Inputs) -> bool:
        return any(((array != 0) & (np.abs(array) < smallest)).any() for array in sample.arrays.values())

    assert subnormal(edges)
    assert not any(map(subnormal, others))
    assert all(np.isfinite(array).all() for sample in (edges, *others) for array in sample.arrays.values())
    rows, neighbours = (sample.arrays["x1"] for sample in others)
    assert (rows == rows[:, :1]).all()
    assert (neighbours[:, ::2] == rows[:, ::2]).all()
    assert (neighbours[:, 1::2] != rows[:, 1::2]).sum() > 32


def test_edge_values_are_finite_and_of_both_signs() -> None:
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        values = edge_values(dtype).astype(np.float64)
        assert np.isfinite(values).all()
        assert (np.sort(values) == np.sort(-values)).all()
        assert len(np.unique(values)) > 25
