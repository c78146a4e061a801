"""Bad input gets one clear sentence, the documented exit code, and no traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
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

def holds_itself():
    inputs = [torch.ones(2)]
    inputs.append(inputs)
    return (lambda x: x[0]), (inputs,)

def deep():
    inputs = torch.ones(2)
    for _ in range(5000):
        inputs = [inputs]
    return (lambda x: torch.ones(2)), (inputs,)

def objects():
    import numpy
    return (lambda x: x), (numpy.array([object()]),)

def sparse():
    return (lambda x: x), (torch.ones(2, 2).to_sparse(),)

def dies():
    import os
    os.abort()

def hangs():
    while True:
        pass
"""


def _with_flipped(data: bytes) -> bytes:
    """A bit of the array's own header is another one."""
    at = data.index(b"'shape': (5, 2)") + len("'shape': (")
    return data[:at] + b"7" + data[at + 1 :]


def broken_models(folder: Path) -> None:
    """Models that protobuf reads without complaint."""

    def save(name: str, shape: list[int | str], kind: int = TensorProto.FLOAT, **more: Any) -> onnx.ModelProto:
        values = [helper.make_tensor_value_info(each, kind, shape) for each in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", values[:1], values[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], **more)
        (folder / name).write_bytes(model.SerializeToString())
        return model

    save("strings.onnx", [2], TensorProto.STRING)
    save("int4.onnx", [2], TensorProto.INT4)
    save("huge.onnx", [1 << 40])
    save("gibibyte.onnx", [1 << 27, 2])
    save("negative.onnx", [-3])
    save("axes.onnx", [1] * 70)
    model = save("element.onnx", [2])
    model.graph.input[0].type.tensor_type.elem_type = 99
    (folder / "element.onnx").write_bytes(model.SerializeToString())
    model = save("names.onnx", ["ABCD"])
    (folder / "names.onnx").write_bytes(model.SerializeToString().replace(b"ABCD", b"A\xff\xfeD"))
    model = save("sparse.onnx", [3])
    value, place = helper.make_tensor("w", TensorProto.FLOAT, [1], [3.0]), helper.make_tensor("i", 7, [1], [1])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(value, place, [3]))
    (folder / "sparse.onnx").write_bytes(model.SerializeToString())
    own = helper.make_opsetid("own", 1)
    inner = [helper.make_node("F", ["a"], ["b"], domain="own")]
    save("recursive.onnx", [2], functions=[helper.make_function("own", "F", ["a"], ["b"], inner, [own])])
    twice = [
        helper.make_function(
            "own",
            f"F{n}",
            ["a"],
            ["b"],
            [helper.make_node(f"F{n + 1}" if n < 40 else "Relu", ["a"], ["b"], domain="own" if n < 40 else "")] * 2,
            [own],
        )
        for n in range(41)
    ]
    model = save("expanding.onnx", [2], functions=twice)
    model.graph.node[0].op_type, model.graph.node[0].domain = "F0", "own"
    (folder / "expanding.onnx").write_bytes(model.SerializeToString())
    model = save("away.onnx", [3])
    weights = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    weights.ClearField("float_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="gone.bin")
    model.graph.initializer.append(weights)
    (folder / "away.onnx").write_bytes(model.SerializeToString())
    del weights.external_data[:]
    weights.data_location = TensorProto.DEFAULT
    del model.graph.initializer[:]
    model.graph.initializer.append(weights)
    (folder / "weightless.onnx").write_bytes(model.SerializeToString())


@pytest.fixture
def folder(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("files")
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
    np.save(tmp_path / "plain.npy", np.ones((5, 2), np.float32))
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "right.npz").read_bytes()[:-30])
    (tmp_path / "flipped.npz").write_bytes(_with_flipped((tmp_path / "right.npz").read_bytes()))
    (tmp_path / "cut.safetensors").write_bytes(b"\x20\0\0\0\0\0\0\0{}")
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros((5 << 22, 2), np.float32))
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(7)\n")
    (tmp_path / "deep.py").write_text(f"x = {'-' * 200_000}1\n")
    (tmp_path / "long.py").write_text(f"x = {'1 + ' * 100_000}1\n")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    broken_models(tmp_path)
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "other.json").write_text('{"program": {"name": "net.onnx", "digest": "0"}, "results": [], "bugs": []}')
    return tmp_path


CASES = [
    # arguments, exit code, what the sentence must say
    ("check nofile.onnx", 2, "there is no such file"),
    ("check nowhere/nofile.py:program", 2, "there is no such file"),
    ("check program.py:good", 2, "Did you mean 'programs.py'"),
    ("check programs.py", 2, "say which callable of the file makes the program, as in programs.py:good. It also has: "),
    ("check program.py", 2, "there is no such file. Did you mean 'programs.py'"),
    ("check deep.py", 2, "say which callable of the file makes the program, as in deep.py:program."),
    ("check long.py", 2, "say which callable of the file makes the program, as in long.py:program."),
    ("check programs.txt:good", 2, "there is no such file"),
    ("check plugin.py:x", 2, "syntax error"),
    ("check broken.py:program", 2, "syntax error in line 1"),
    ("check programs.py:god", 2, "Did you mean 'good'"),
    ("check programs.py:raises", 2, "raised ValueError: no weights here"),
    ("check programs.py:returns_a_number", 2, "must return (callable, inputs), not int"),
    ("check programs.py:not_callable", 2, "must return a callable first, not str"),
    ("check programs.py:dies", 2, "SIGABRT"),
    ("check programs.py:holds_itself", 2, "nested more than 100 levels deep, or holds itself"),
    ("check programs.py:deep", 2, "nested more than 100 levels deep, or holds itself"),
    ("check programs.py:objects", 2, "'x' has the dtype object, which is not one of numbers"),
    ("check programs.py:sparse", 2, "Give dense tensors of numbers"),
    ("check strings.onnx", 2, "Input 'x' takes text, and Driftline feeds numbers only"),
    ("check int4.onnx", 2, "Input 'x' has the element type int4"),
    ("check huge.onnx", 2, "which takes 8 TiB in double precision, and 8 GiB may be used"),
    ("check gibibyte.onnx --memory 1", 2, "which takes 2 GiB in double precision, and 1 GiB may"),
    ("check negative.onnx", 2, "Input 'x' has a shape that cannot be"),
    ("check axes.onnx", 2, "Input 'x' has a shape that cannot be"),
    ("check element.onnx", 2, "Input 'x' has the element type 99, which this onnx does not know"),
    ("check names.onnx", 2, "names that are not text, such as b'A\\xff\\xfeD'"),
    ("check sparse.onnx", 2, "sparse weights, which Driftline cannot read. Export it with dense ones"),
    ("check recursive.onnx", 2, "its function 'F' calls itself"),
    ("check expanding.onnx", 2, "nodes with its functions expanded, which is too many"),
    ("check away.onnx", 2, "refers to a data file that is missing: gone.bin. Put it beside the model"),
    ("check weightless.onnx", 2, "the weights 'w' are cut short: 3 elements, of which 0 are there"),
    ("check relu.onnx --plugin leaves.py", 2, "ends the process when it is imported (sys.exit(7))"),
    ("check relu.onnx --inputs plain.npy", 2, "a single array (.npy), and inputs have names. Save it with numpy.savez"),
    ("check relu.onnx --inputs empty.npz", 2, "not an .npz file, or it is damaged"),
    ("check relu.onnx --inputs cut.npz", 2, "not an .npz file, or it is damaged"),
    ("check relu.onnx --inputs flipped.npz", 2, "damaged"),
    ("check relu.onnx --inputs bomb.npz --memory 1", 2, "it holds 160 MiB, and inputs may take 128 MiB"),
    ("check relu.onnx --inputs cut.safetensors", 2, "not a whole safetensors file: its header is longer than the file"),
    ("check relu.onnx --baseline deep.json", 2, "it is not JSON (it is nested too deep)"),
    ("check programs.py:hangs --timeout 3", 2, "did not load within 3 s"),
    ("check imports.py:program", 2, "No module named 'a_module_that_is_not_there'"),
    ("check text.onnx", 2, "not an ONNX model"),
    ("check empty.onnx", 2, "not an ONNX model"),
    ("check cut.onnx", 2, "cut short"),
    ("check unknown_op.onnx", 2, "'Reluu', which ONNX does not define"),
    ("check text.pt2", 2, "damaged archive, or none"),
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


def test_the_parent_allocates_nothing_that_a_file_only_claims_to_hold(folder: Path) -> None:
    """Files of a few bytes that declare a gibibyte and more: they are refused, and the memory is not touched."""
    code = (
        "import sys; from driftline.cli import run\n"
        "for arguments in sys.argv[1:]: assert run(arguments.split()) == 2, arguments\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    commands = ["check gibibyte.onnx --memory 1", "check relu.onnx --memory 1 --inputs bomb.npz", "check huge.onnx"]
    done = subprocess.run([sys.executable, "-c", code, *commands], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 250_000, done.stdout  # kilobytes


def test_results_that_are_too_large_for_the_parent_are_not_compared(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sizes = helper.make_tensor("s", TensorProto.INT64, [1], [1 << 25])
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [size]) for n, size in (("x", 1), ("y", 1 << 25))]
    graph = helper.make_graph([helper.make_node("Expand", ["x", "s"], ["y"])], "g", values[:1], values[1:], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (folder / "expand.onnx").write_bytes(model.SerializeToString())
    before = psutil.Process().memory_info().rss
    assert run(["check", "expand.onnx", "--targets", "onnxruntime", "--memory", "1"]) == 5
    assert "too large to be compared" in " ".join(capfd.readouterr().out.split())
    assert psutil.Process().memory_info().rss - before < 100 << 20  # the result has 128 MiB


@pytest.mark.parametrize("stdout", ["closed", "left", "full"])
def test_output_that_is_not_read(folder: Path, stdout: str) -> None:
    """A reader that has left is no error; a disk that is full is one, in one sentence."""
    command = [sys.executable, "-m", "driftline", "doctor", "--help"]
    if stdout == "closed":
        done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True)
    elif stdout == "full":
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    else:
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
        os.close(writing)
    if stdout == "full":
        assert (done.returncode, "output cannot be written: No space left" in done.stderr) == (2, True)
    else:
        assert (done.returncode, done.stderr) == (0, "")
    assert "Traceback" not in done.stderr
