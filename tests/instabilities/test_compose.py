"""Composed models: which are made, and that their forms compute the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from driftline.cli import run
from driftline.core.errors import DriftlineError
from driftline.instabilities.compose import Arrangement, compose
from driftline.instabilities.models import read_models
from driftline.instabilities.operations import COMPOSABLE, parse_operations

ENDS = (".py", ".pt", ".onnx")  # of the files of a model


def test_every_sequence_is_made_once_in_each_arrangement_that_it_has() -> None:
    made = compose(parse_operations("exp,div"), 2, every=True)
    assert [(one.name, one.expression) for one in made] == [
        ("exp-exp", "exp(exp(x0))"),
        ("exp-div", "div(exp(x0), x1)"),
        ("exp-div-reuse", "div(exp(x0), x0)"),
        ("div-exp", "exp(div(x0, x1))"),
        ("div-exp-reuse", "exp(div(x0, x0))"),
        ("div-div", "div(div(x0, x1), x2)"),
        ("div-div-reuse", "div(div(x0, x0), x0)"),
    ]


def test_a_fork_joins_two_branches_of_one_input() -> None:
    made = compose(parse_operations("exp,log,sub"), 3, every=True)
    fork = next(one for one in made if one.name == "exp-log-sub-fork")
    assert (fork.expression, fork.arrangement) == ("sub(exp(x0), log(x0))", Arrangement.FORK)
    assert len(fork.graph.inputs) == 1


def test_some_models_use_every_operator_and_are_the_same_each_time() -> None:
    operations = parse_operations("exp,log,sqrt,div,softmax,sum")
    some = compose(operations, 3, least=12, seed=3)
    assert len(some) == 12
    assert {name for one in some for name in one.operators} == {one.name for one in operations}
    assert compose(operations, 3, least=12, seed=3) == some
    assert compose(operations, 3, least=12, seed=4) != some


def test_more_sequences_than_can_be_listed_are_drawn_by_chance() -> None:
    some = compose(parse_operations(",".join(COMPOSABLE)), 4, least=20)
    assert len(some) >= 20
    with pytest.raises(DriftlineError, match="Leave out --all"):
        compose(parse_operations(",".join(COMPOSABLE)), 4, every=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ops", "exp,logg"], "Did you mean 'log'"),
        (["--ops", ","], "name at least one operator"),
        (["--ops", "exp", "--length", "1", "--min-count", "5"], "make only 1 model"),
        (["--ops", "exp", "--all", "--min-count", "5"], "not both"),
        (["--ops", "exp", "--shape", "4xq"], "--shape 4xq"),
    ],
)
def test_a_mistake_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["compose", "--out", str(tmp_path / "models"), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_every_operator_computes_the_same_in_all_three_files(tmp_path: Path) -> None:
    """The TorchScript file, the Python file and the ONNX file, by torch and ONNX Runtime."""
    import onnxruntime
    import torch

    folder = tmp_path / "models"
    assert run(["compose", "--out", str(folder), "--ops", ",".join(COMPOSABLE), "--length", "1", "--all"]) == 0
    metadata = json.loads((folder / "metadata.json").read_text())
    assert {name for one in metadata["models"] for name in one["operators"]} == set(COMPOSABLE)
    rng = np.random.default_rng(0)
    for one in metadata["models"]:
        arrays = {each["name"]: (0.2 + 0.6 * rng.random(each["shape"])).astype(each["dtype"]) for each in one["inputs"]}
        (script,) = torch.jit.load(folder / one["files"]["torchscript"])(*map(torch.from_numpy, arrays.values()))
        space: dict[str, object] = {"__name__": "model"}
        exec((folder / one["files"]["source"].removesuffix(":program")).read_text(), space)
        function, _ = space["program"]()  # type: ignore[operator]
        (source,) = function(*map(torch.from_numpy, arrays.values()))
        session = onnxruntime.InferenceSession(folder / one["files"]["onnx"], providers=["CPUExecutionProvider"])
        (onnx,) = session.run(None, arrays)
        assert np.array_equal(script.numpy(), source.numpy()), one["name"]
        np.testing.assert_allclose(onnx, source.numpy(), rtol=2e-4, atol=1e-5, err_msg=one["name"])


def test_composing_again_replaces_what_compose_wrote_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "models"

    def composed(ops: str) -> int:
        return run(["compose", "--out", str(folder), "--ops", ops, "--length", "1", "--all", "--shape", "2x2"])

    assert composed("exp,log") == 0
    (folder / "notes.txt").write_text("mine")
    assert composed("log,abs") == 0
    names = {path.name for path in folder.iterdir()}
    assert names == {"notes.txt", "metadata.json", *(f"{op}{end}" for op in ("log", "abs") for end in ENDS)}
    assert {one.name for one in read_models(folder)} == {"log", "abs"}

    (folder / "exp.py").write_text("mine")
    capsys.readouterr()
    assert composed("exp") == 2
    assert "exp.py is there, and `driftline compose` did not write it" in capsys.readouterr().err
    assert (folder / "exp.py").read_text() == "mine"
    assert (folder / "log.onnx").is_file()


def test_an_interrupted_call_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    metadata = tmp_path / "metadata.json"
    metadata.write_text(json.dumps({"schema": 1, "complete": False, "models": []}))
    with pytest.raises(DriftlineError, match="composing was interrupted"):
        read_models(tmp_path)
    assert run(["compose", "--out", str(tmp_path), "--ops", "abs", "--length", "1", "--shape", "2x2"]) == 0
    assert [one.name for one in read_models(tmp_path)] == ["abs"]


@pytest.mark.parametrize("name", ["", "..", "../notes.txt"])
def test_metadata_that_names_a_folder_removes_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"source": name, "onnx": "a.onnx", "torchscript": "a.pt"}
    model = {"name": "a", "expression": "", "operators": [], "files": files}
    (tmp_path / "metadata.json").write_text(json.dumps({"schema": 1, "models": [model]}))
    (tmp_path / "a.onnx").write_text("mine")
    assert run(["compose", "--out", str(tmp_path), "--ops", "abs", "--length", "1", "--shape", "2x2"]) == 2
    assert "is not what `driftline compose` writes" in capsys.readouterr().err
    assert (tmp_path / "a.onnx").read_text() == "mine"
