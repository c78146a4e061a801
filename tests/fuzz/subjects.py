"""The readers of files that people bring, each with a few whole files to damage.

A reader answers "taken" or "refused" (`DriftlineError`); whatever else it raises is a fault of ours.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftline.causes.library import BUILTIN
from driftline.causes.read import read_cause
from driftline.cli.settings import find_settings
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec, save_tensors
from driftline.core.verdict import Fingerprint, Status
from driftline.core.wire import encode
from driftline.inputs.files import read_inputs
from driftline.inputs.foreign.convert import read_samples
from driftline.inputs.foreign.float128 import write_float128
from driftline.inputs.foreign.ktest import write_ktest
from driftline.inputs.foreign.tables import write_own
from driftline.inputs.make import InputMaker
from driftline.programs.archive_scan import require_harmless
from driftline.programs.described import Described, InspectRequest
from driftline.programs.inspect import inspect
from driftline.programs.torchscript_file import require_torchscript
from driftline.report.baseline import read_baseline
from driftline.store import Store

ROOM = 8 << 20
SPECS = (TensorSpec("x", "float32", (-1, 2)), TensorSpec("n", "int64", (3,)))
ARRAYS = {"x": np.ones((5, 2), np.float32), "n": np.arange(3)}
UNFORESEEN = "cannot be read ("  # the sentence for damage that has none of its own


@dataclass(frozen=True)
class Subject:
    """A kind of file. `read` is given one in a folder of its own, and returns or raises."""

    name: str
    suffix: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], Any]
    share: int = 10  # of a run, in parts of the whole

    def judge(self, data: bytes, folder: Path) -> str:
        path = folder / f"file{self.suffix}"
        path.write_bytes(data)
        try:
            self.read(path)
        except DriftlineError as error:
            return "unforeseen" if UNFORESEEN in str(error) else "refused"
        return "taken"


def _model(path: Path) -> None:
    """As `check` does it: what the worker says of a model, and the inputs that the parent makes for it."""
    described = _inspected("onnx", path)
    encode(Described, described)
    InputMaker(described.inputs, {}, described.known, room=ROOM).random(0, 0)


def _inspected(form: str, path: Path) -> Described:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        found = inspect.function(InspectRequest(form, path, path.name, Path(folder)), None)  # type: ignore[arg-type]
    if found.described is None:
        raise DriftlineError(found.problem)
    return found.described


def _models() -> list[bytes]:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def written(nodes: list[Any], inputs: list[Any], weights: list[Any] = [], **more: Any) -> bytes:  # noqa: B006
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", "columns"])]
        graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10, **more)
        return bytes(model.SerializeToString())

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "past + new"])
    table = numpy_helper.from_array(np.ones((7, 3), np.float32), "table")
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["z"])], "body", [], [helper.make_tensor_value_info("z", 1, ["a", "b"])]
    )
    own = helper.make_opsetid("own", 1)
    function = helper.make_function(
        "own", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 18), own]
    )
    away = onnx.TensorProto(name="table", data_type=1, dims=[7, 3], data_location=1)
    away.external_data.add(key="location", value="away.bin")
    return [
        written([helper.make_node("Relu", ["x"], ["y"])], [x]),
        written(
            [helper.make_node("Gather", ["table", "ids"], ["g"], axis=0), helper.make_node("Relu", ["g"], ["y"])],
            [ids],
            [table],
        ),
        written(
            [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Softmax", ["m"], ["y"], axis=-1)],
            [x],
            [numpy_helper.from_array(np.ones((3, 4), np.float32), "w")],
        ),
        written(
            [
                helper.make_node("ReduceMax", ["x"], ["r"], keepdims=0),
                helper.make_node("Cast", ["r"], ["c"], to=TensorProto.BOOL),
                helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body),
            ],
            [x],
        ),
        written([helper.make_node("F", ["x"], ["y"], domain="own")], [x], functions=[function]),
        written([helper.make_node("Gather", ["table", "ids"], ["y"])], [ids], [away]),
    ]


def _archives() -> list[bytes]:
    made = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, **ARRAYS)  # type: ignore[arg-type]
        made.append(file.getvalue())
    file = io.BytesIO()
    np.save(file, ARRAYS["x"])
    return [*made, file.getvalue()]


def _safetensors() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        made = []
        for more in ({}, {"c": np.ones(3, np.complex64)}):
            save_tensors(path, {**ARRAYS, **more})
            made.append(path.read_bytes())
        return made


def _torch_archives() -> list[bytes]:
    import torch

    file = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.ones(1, 3),)), file)
    return [file.getvalue()]


def _torch_archive(path: Path) -> None:
    """As `check` does it: the parent looks into the archive, a worker loads it."""
    require_harmless(path)
    _inspected("torch", path)


def _scripts() -> list[bytes]:
    """TorchScript files: traced, and scripted with a class of its own and a loop."""
    import torch

    class Powers(torch.nn.Module):
        def forward(self, x: torch.Tensor, times: int = 2) -> dict[str, torch.Tensor]:
            for _ in range(times):
                x = x * x
            return {"x": x}

    made = []
    for module in (torch.jit.trace(torch.nn.Linear(3, 2).eval(), torch.ones(1, 3)), torch.jit.script(Powers())):
        file = io.BytesIO()
        torch.jit.save(module, file)
        made.append(file.getvalue())
    return made


def _screened_script(path: Path) -> None:
    """What the parent does, in which nothing may happen that a worker would survive."""
    require_torchscript(path, path.name)
    require_harmless(path)


def _script(path: Path) -> None:
    _screened_script(path)
    _inspected("torchscript", path)


def _stores() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        path.write_bytes(SourceBundle("m.py", "f", {"m.py": "x"}).dump())
        program = Program("source", "torch", file_digest(path), path, "m.py:f", (TensorSpec("x", "float32", (3,)),))
        case = Case(program, (Inputs({"x": ARRAYS["x"]}, "example"),), (Target("b"),), CheckOptions())
        with Store.create(Path(folder)) as store:
            store.add_finding(
                Fingerprint("b", "RUN", "wrong-value", "d"),
                case,
                Target("b"),
                summary="wrong",
                status=Status.NEW,
                verdict={"kind": "wrong-value"},
                execution={"version": "1"},
            )
        connection = sqlite3.connect(Path(folder) / "store.db")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.close()
        return [(Path(folder) / "store.db").read_bytes()]


def _store(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        (Path(folder) / "store.db").write_bytes(path.read_bytes())
        with Store.open(Path(folder)) as store:
            for bug in store.bugs():
                store.bug(bug.id)


def _settings() -> list[bytes]:
    return [
        b'targets = ["inductor", "onnxruntime:opt=off"]\nfail_on = ["fail", "rejected"]\ntimeout = 30.5\n'
        b'store = "~/bugs"\n[accept]\nonnxruntime = ["half-accumulation"]\n',
        b'accept = ["tf32"]\nstore = "here"\ntimeout = 10\n',
    ]


def _baselines() -> list[bytes]:
    value = {
        "program": {"name": "m.onnx", "digest": "00"},
        "results": [{"target": "inductor", "verdict": "fail", "bug": "b-1"}],
        "bugs": [{"id": "b-1"}],
    }
    return [json.dumps(value).encode()]


def _read_settings(path: Path) -> None:
    path.rename(path.with_name("driftline.toml"))
    find_settings(path.parent)


def _projects() -> list[bytes]:
    return [
        b'[project]\nname = "x"\n[tool.driftline]\ntargets = ["inductor"]\ncauses = ["team/causes"]\n',
        b'[tool.other]\nkey = [1, 2]\n[tool.driftline.accept]\nonnxruntime = ["half-accumulation"]\n',
    ]


def _read_project(path: Path) -> None:
    path.rename(path.with_name("pyproject.toml"))
    find_settings(path.parent)


def _causes() -> list[bytes]:
    """Of every compiler the largest: they have the most fields."""
    return [
        max(folder.glob("*.toml"), key=lambda path: path.stat().st_size).read_bytes()
        for folder in sorted(BUILTIN.iterdir())
        if folder.is_dir() and any(folder.glob("*.toml"))
    ]


def _read_cause(path: Path) -> None:
    """As `--causes` reads a folder, and in the folder that the file names, so that more of it is looked at."""
    named = re.search(rb'^compiler = "([\w:.-]+)"', path.read_bytes(), re.MULTILINE)
    read_cause(path, named[1].decode().replace(":", "-") if named else "onnxruntime")


FOREIGN = (TensorSpec("x", "float32", (3,)), TensorSpec("y", "float64", (2,)))


def _test_cases() -> list[bytes]:
    """KLEE's, of each version."""
    arrays = {"x": np.ones(3, "<f4").tobytes(), "y": np.ones(2, "<f8").tobytes()}
    made = write_ktest(arrays, ("prog.bc", "--sym"))
    first = b"BOUT\n" + struct.pack(">I", 1) + made[9:-8]
    return [made, first, write_ktest({"x": arrays["x"]})]


def _wide_floats() -> list[bytes]:
    return [write_float128(np.array([1.0, -0.0, np.inf, 1e-310, np.nan])), bytes(80)]


def _tables() -> list[bytes]:
    parsed = b"testfile,values\ntest000001.ktest,nan,-inf,inf,1e-3,0x1f\ntest000002.ktest,1,2,3,4,5\n"
    return [parsed, write_own([{"x": np.ones(3, np.float32), "y": np.zeros(2)}], "table")]


def _foreign(path: Path) -> None:
    """As `driftline inputs convert` does it."""
    read_samples(path, FOREIGN)


SUBJECTS = (
    Subject("onnx", ".onnx", _models, _model, 30),
    Subject("npz", ".npz", _archives, lambda path: read_inputs(path, SPECS, ROOM), 20),
    Subject("npy", ".npy", lambda: _archives()[2:], lambda path: read_inputs(path, SPECS, ROOM), 5),
    Subject("safetensors", ".safetensors", _safetensors, lambda path: read_inputs(path, SPECS, ROOM), 20),
    Subject("store", ".db", _stores, _store, 8),
    Subject("toml", ".toml", _settings, _read_settings, 8),
    Subject("project", ".toml", _projects, _read_project, 8),
    Subject("cause", ".toml", _causes, _read_cause, 15),
    Subject("baseline", ".json", _baselines, read_baseline, 8),
    Subject("ktest", ".ktest", _test_cases, _foreign, 12),
    Subject("float128", ".float128", _wide_floats, _foreign, 5),
    Subject("table", ".csv", _tables, _foreign, 12),
    Subject("pt2", ".pt2", _torch_archives, _torch_archive, 1),
    Subject("pt", ".pt", _scripts, _screened_script, 8),
    Subject("pt-loaded", ".pt", _scripts, _script, 1),
)
