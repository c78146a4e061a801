"""The readers of files that people bring, each with a few whole files to damage.

A reader answers "taken" or "refused" (`DriftlineError`); whatever else it raises is a fault of ours.
"""

from __future__ import annotations

import io
import json
import random
import re
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mutate import mutated
from rows import damage, fill

from bench.handmade import row, run
from driftline.bench.result import read_run
from driftline.causes.library import BUILTIN
from driftline.causes.read import read_cause
from driftline.cli.settings import find_settings
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec, save_tensors
from driftline.core.text import to_json
from driftline.core.verdict import Fingerprint, Status
from driftline.core.wire import encode
from driftline.hardware.loading import SHIPPED
from driftline.hardware.reader import read_profile
from driftline.inputs.files import read_inputs
from driftline.inputs.foreign.convert import read_samples
from driftline.inputs.foreign.float128 import write_float128
from driftline.inputs.foreign.ktest import write_ktest
from driftline.inputs.foreign.tables import write_own
from driftline.inputs.make import InputMaker
from driftline.perf.journal import FOLDER as PERF_FOLDER
from driftline.perf.journal import PerfHuntEntry, PerfJournal, PerfPlan
from driftline.programs.archive_scan import require_harmless
from driftline.programs.described import Described, InspectRequest
from driftline.programs.inspect import inspect
from driftline.programs.torchscript_file import require_torchscript
from driftline.report.baseline import read_baseline
from driftline.report.formats import FORMATS, render
from driftline.report.gather import gather
from driftline.schedules.asking import read_journal
from driftline.schedules.requests import JournalLine, Performed
from driftline.schedules.trace import LoopAt, ScheduleStep, Trace, read_trace
from driftline.serve import records
from driftline.serve.orders import AuditOrder, CheckOrder
from driftline.serve.records import JOB, PROGRESS, JobProgress, JobRecord, SeenBug
from driftline.store import Store
from driftline.store.merge import merge_stores
from typed import typed

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
    change: Callable[[bytes, list[bytes], random.Random], bytes] = mutated
    guided: bool = True  # towards lines that were not reached; that costs several times the time

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


def _rows() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "s")
        return [(Path(folder) / "s" / "store.db").read_bytes()]


def _changed_rows(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """The store with damaged rows."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "store.db").write_bytes(data)
        damage(Path(folder), rng)
        return (Path(folder) / "store.db").read_bytes()


def _show_rows(path: Path) -> None:
    """As the commands for bugs, the report in every format, the coverage and `merge` read a store."""
    place = path.parent / "s"
    place.mkdir()
    path.rename(place / "store.db")
    with Store.open(place) as store:
        names = [bug.id for bug in store.bugs()]
    bugs = ("list", "list --json", *(f"show {name}" for name in names))
    for words in ("coverage", *(f"bugs {action}" for action in bugs)):
        done = typed(*words.split(), "--store", str(place))
        if done.returncode not in (0, 1, 2) or "Traceback" in done.stderr:
            raise RuntimeError(f"{words}: exit code {done.returncode}: {done.stderr[-500:]}")
    report = gather(place)
    for form in FORMATS:
        render(report, form)
    merge_stores([place], path.parent / "into")


def _traces() -> list[bytes]:
    steps = (
        ScheduleStep("split", loops=(LoopAt("Y", 0),), numbers=(None, 8)),
        ScheduleStep("compute_inline", blocks=("P",)),
    )
    return [Trace("two_steps", {"n": 17, "m": 5}, steps).dump(), Trace("scale", {"n": 3}, ()).dump()]


def _journals() -> list[bytes]:
    trace = read_trace(_traces()[0])
    lines = (
        JournalLine(0, trace.with_steps(())),
        JournalLine(0, step=trace.steps[0]),
        JournalLine(0, done=Performed(trace)),
        JournalLine(1, trace),
        JournalLine(1, stage="RUN"),
    )
    return ["\n".join(json.dumps(encode(JournalLine, line)) for line in lines).encode() + b"\n"]


def _profiles() -> list[bytes]:
    return [path.read_bytes() for path in sorted(SHIPPED.glob("*.toml"))]


def _jobs() -> list[bytes]:
    orders = (CheckOrder("m.onnx", "m.onnx"), AuditOrder(60.0))
    return [json.dumps(encode(JobRecord, JobRecord(1, order, "2026-01-01T00:00:00Z"))).encode() for order in orders]


def _read_job(path: Path) -> None:
    """A damaged record is no record: whoever lists the jobs leaves it out."""
    place = path.parent / "1"
    place.mkdir()
    path.rename(place / JOB)
    if records.load(place) is None:
        raise DriftlineError("it is no record")


def _job_progress() -> list[bytes]:
    seen = (SeenBug("b-1", "wrong-value", "d", new=True),)
    return [json.dumps(encode(JobProgress, JobProgress("hunts", 1.0, 60.0, 1, "r", bugs=seen, lines=("x",)))).encode()]


def _read_job_progress(path: Path) -> None:
    path.rename(path.with_name(PROGRESS))
    records.load_progress(path.parent)


def _perf_hunts() -> list[bytes]:
    entry = PerfHuntEntry(1, PerfPlan(("onnxruntime",)), 3, 1.5, {"even": 2}, ("b-1",))
    return [json.dumps(encode(PerfHuntEntry, entry)).encode()]


def _read_perf_hunt(path: Path) -> None:
    folder = path.parent / PERF_FOLDER
    folder.mkdir()
    path.rename(folder / "1.json")
    with Store.create(path.parent) as store:
        PerfJournal(store).entry(1)


def _bench_runs() -> list[bytes]:
    return [to_json(run(row("inductor", 2.0)).to_json()).encode()]


SUBJECTS = (
    Subject("rows", ".db", _rows, _show_rows, 8, _changed_rows, guided=False),
    Subject("trace", ".json", _traces, lambda path: read_trace(path.read_bytes()), 6),
    Subject("journal", ".jsonl", _journals, read_journal, 6),
    Subject("profile", ".toml", _profiles, read_profile, 8),
    Subject("job", ".json", _jobs, _read_job, 6),
    Subject("progress", ".json", _job_progress, _read_job_progress, 4),
    Subject("perf", ".json", _perf_hunts, _read_perf_hunt, 5),
    Subject("bench", ".json", _bench_runs, read_run, 6),
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
    Subject("pt2", ".pt2", _torch_archives, _torch_archive, 4),
    Subject("pt", ".pt", _scripts, _screened_script, 8),
    Subject("pt-loaded", ".pt", _scripts, _script, 1),
)
