"""Bad input gets one clear sentence, the documented exit code, and no traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from driftline.cli import run

PROGRAMS = """
import torch

def good():
    return torch.nn.Linear(3, 2).eval(), {"input": torch.ones(1, 3)}

def raises():
    raise ValueError("no weights here")

def returns_a_number():
    return 3

def not_callable():
    return "model", (torch.ones(2),)

def dies():
    import os
    os.abort()

def hangs():
    while True:
        pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "programs.py").write_text(PROGRAMS)
    (tmp_path / "broken.py").write_text("def program(:\n")
    (tmp_path / "imports.py").write_text("import a_module_that_is_not_there\n\ndef program(): ...\n")
    (tmp_path / "text.onnx").write_text("not a model")
    (tmp_path / "text.pt2").write_text("not an archive")
    (tmp_path / "plugin.py").write_text("class Chip(\n")
    (tmp_path / "empty.onnx").write_bytes(b"")
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (tmp_path / "relu.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "cut.onnx").write_bytes(model.SerializeToString()[:-7])
    model.opset_import[0].version = 77
    onnx.save(model, str(tmp_path / "future.onnx"))
    model.opset_import[0].version = 18
    model.graph.node[0].input[0] = "zz"
    onnx.save(model, str(tmp_path / "undefined.onnx"))
    model.graph.node[0].input[0] = "x"
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = 3
    onnx.save(model, str(tmp_path / "fixed.onnx"))
    (tmp_path / "folder.onnx").mkdir()
    model.graph.node[0].op_type = "Reluu"
    onnx.save(model, str(tmp_path / "unknown_op.onnx"))
    np.savez(tmp_path / "right.npz", x=np.ones((5, 2), np.float32))
    np.savez(tmp_path / "name.npz", z=np.ones((5, 2), np.float32))
    np.savez(tmp_path / "shape.npz", x=np.ones((5, 3), np.float32))
    np.savez(tmp_path / "dtype.npz", x=np.ones((5, 2), np.float64))
    np.savez(tmp_path / "missing.npz")
    np.savez(tmp_path / "objects.npz", x=np.array([{"a": 1}], dtype=object))
    (tmp_path / "text.npz").write_text("not arrays")
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "other.json").write_text('{"program": {"name": "net.onnx", "digest": "0"}, "results": [], "bugs": []}')
    return tmp_path


CASES = [
    # arguments, exit code, what the sentence must say
    ("check nofile.onnx", 2, "there is no such file"),
    ("check nowhere/nofile.py:program", 2, "there is no such file"),
    ("check program.py:good", 2, "Did you mean 'programs.py'"),
    ("check programs.py", 2, "say which callable"),
    ("check programs.txt:good", 2, "there is no such file"),
    ("check plugin.py:x", 2, "syntax error"),
    ("check broken.py:program", 2, "syntax error in line 1"),
    ("check programs.py:god", 2, "Did you mean 'good'"),
    ("check programs.py:raises", 2, "raised ValueError: no weights here"),
    ("check programs.py:returns_a_number", 2, "must return (callable, inputs), not int"),
    ("check programs.py:not_callable", 2, "must return a callable first, not str"),
    ("check programs.py:dies", 2, "SIGABRT"),
    ("check programs.py:hangs --timeout 3", 2, "did not load within 3 s"),
    ("check imports.py:program", 2, "No module named 'a_module_that_is_not_there'"),
    ("check text.onnx", 2, "not an ONNX model"),
    ("check empty.onnx", 2, "not an ONNX model"),
    ("check cut.onnx", 2, "cut short"),
    ("check unknown_op.onnx", 2, "'Reluu', which ONNX does not define"),
    ("check text.pt2", 2, "not a torch.export archive"),
    ("check relu.onnx --targets onnxrutime", 2, "Did you mean 'onnxruntime'"),
    ("check relu.onnx --targets quik", 2, "Did you mean 'quick'"),
    ("check relu.onnx --targets quick:opt=off", 2, "quick is a preset"),
    ("check relu.onnx --targets onnxruntime:opt=full", 2, "Valid values: off, basic, extended, all"),
    ("check relu.onnx --targets onnxruntime:level=1", 2, "has no option 'level'"),
    ("check relu.onnx --targets onnxruntime:opt=off:opt=all", 2, "twice"),
    ("check relu.onnx --targets onnxruntime@0.0.1", 4, "driftline env add onnxruntime==0.0.1"),
    ("check relu.onnx --targets tensorrt", 4, "not available"),
    ("check relu.onnx --targets ,", 2, "No target given"),
    ("check relu.onnx --targets inductor", 2, "inductor takes torch programs; relu.onnx is none of these"),
    ("check relu.onnx --inputs nofile.npz", 2, "there is no such file"),
    ("check relu.onnx --inputs special", 2, "Did you mean 'specials'"),
    ("check relu.onnx --inputs name.npz", 2, "'z' is not an input of the program. It takes: x"),
    ("check relu.onnx --inputs shape.npz", 2, "has the shape [5, 3], but the program takes x: float32[?, 2]"),
    ("check relu.onnx --inputs dtype.npz", 2, "is float64, but the program takes x: float32"),
    ("check relu.onnx --inputs missing.npz", 2, "the input 'x' is missing"),
    ("check relu.onnx --inputs objects.npz", 2, "refuses to unpickle"),
    ("check relu.onnx --inputs text.npz", 2, ".npz"),
    ("check relu.onnx --inputs relu.onnx", 2, "relu.onnx is not an .npz file"),
    ("check relu.onnx --inputs folder.onnx", 2, "it is a folder"),
    ("check folder.onnx", 2, "folder.onnx is a folder"),
    ("check undefined.onnx", 2, "a node of type Relu reads 'zz', which is no input, no weight and no result"),
    ("check future.onnx", 2, "uses opset 77 of the standard, which this onnx (up to"),
    ("check relu.onnx --dim n=0", 2, "--dim n=0: sizes are 1 or more"),
    ("check fixed.onnx --dim batch=4", 2, "all sizes of the model are fixed; export it with open ones"),
    ("check relu.onnx --shape x=axb", 2, "'a' is not a size; a size is a whole number, as in --shape input_ids=2x128"),
    (
        "check relu.onnx --shape x=2,3",
        2,
        "'3' is not INPUT=AxBxC; write it like --shape input_ids=2x128",
    ),
    ("check relu.onnx --taps all", 2, "add --layers"),
    ("check relu.onnx --baseline other.json", 2, "it was made of another program, net.onnx, not of relu.onnx"),
    ("models export bert --as onnx --exporter torchscript --opset 99", 2, "torchscript exporter writes opsets 7 to "),
    ("check relu.onnx --plugin plugin.py", 2, "syntax error in line 1"),
    ("check relu.onnx --plugin nofile.py", 2, "does not exist"),
    ("check relu.onnx --accept half", 2, "there is no arithmetic 'half'. Did you mean 'half-accumulation'"),
    ("check relu.onnx --accept onnxrutime=tf32", 2, "no backend 'onnxrutime'. Did you mean 'onnxruntime'"),
    ("check relu.onnx --fail-on rejectd", 2, "Did you mean 'rejected'"),
    ("check relu.onnx --baseline nofile.json", 2, "(No such file or directory). Make a baseline with --json"),
    ("check relu.onnx --baseline text.onnx", 2, "it is not JSON"),
    ("check relu.onnx --baseline list.json", 2, "not the output of driftline check --json"),
    ("hunt --baseline nofile.json", 2, "it cannot be read"),
    ("replay nothing", 2, "There is no store"),
    ("bugs list --store elsewhere", 2, "There is no store"),
    ("bugs mark x solved", 2, "'solved' is not one of"),
    ("env add onnxruntime", 2, "package==version"),
    ("env remove onnxruntime==0.0.1", 2, "There is no environment"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), CASES, ids=[case[0] for case in CASES])
def test_one_sentence(arguments: str, code: int, words: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(arguments.split()) == code
    out, err = capfd.readouterr()
    assert words in err
    assert "Traceback" not in err
    assert out == ""


def test_unknown_commands_suggest_the_near_one(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["chekc"]) == 2
    assert "Did you mean 'check'" in capfd.readouterr().err
