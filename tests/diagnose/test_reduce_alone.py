"""`driftline reduce` asks single operators first, and takes the sizes of a program's inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from driftline.cli import run

PLUGIN = Path(__file__).with_name("reduce_backends.py")
KINDS = [*["Tanh", "Neg", "Sigmoid", "Abs"] * 5, "Erf", *["Tanh", "Neg", "Sigmoid", "Abs"] * 4]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    names = ["x", *(f"v{at}" for at in range(len(KINDS)))]
    nodes = [helper.make_node(kind, [names[at]], [names[at + 1]]) for at, kind in enumerate(KINDS)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "test", ends[:1], ends[1:])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


def test_an_operator_that_fails_alone_is_made_smaller(
    model: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["--target", "odd-needs:kinds=Erf", "--plugin", str(PLUGIN), "--store", str(store_folder)]
    assert run(["reduce", str(model), *wanted, "--dim", "rows=3", "--json"]) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["program"]["operators"] == ["Erf"]
    assert (found["before"]["operators"], found["before"]["elements"]) == (len(KINDS), 12)
    assert found["steps"][0]["what"] == "the whole program"
    assert found["steps"][1]["size"]["operators"] == 1, "no other operator was ever looked at"

    assert run(["reduce", found["bug"], *wanted, "--dim", "rows=3"]) == 2
    said = capsys.readouterr().err
    assert "--dim and --shape say how large the inputs of a program are" in said
    assert run(["diagnose", str(model), *wanted, "--dim", "columns=3"]) == 2
    assert "There are: rows." in capsys.readouterr().err
