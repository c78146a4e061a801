"""A store may name plugins; they are imported only if the user names them too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.program import Program, file_digest
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.core.verdict import Fingerprint, Status
from driftline.store import Store
from driftline.store.hunts import HuntLog


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plugin that leaves a mark when it is imported, and a store that names it."""
    folder = tmp_path_factory.mktemp("given")
    evil = folder / "evil.py"
    evil.write_text(f"open({str(folder / 'imported')!r}, 'w').close()\n")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", value[:1], value[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    program = Program(
        "onnx",
        "onnx",
        file_digest(folder / "m.onnx"),
        folder / "m.onnx",
        "m",
        (TensorSpec("x", "float32", (2,)),),
        ("y",),
    )
    case = Case(
        program, (Inputs({"x": np.ones(2, np.float32)}, "example"),), (Target("onnxruntime"),),
        CheckOptions(plugins=(str(evil),)),
    )  # fmt: skip
    with Store.create(folder / "store") as store:
        store.add_finding(
            Fingerprint("onnxruntime", "RUN", "wrong-value", "Neg"), case, Target("onnxruntime"), summary="wrong",
            status=Status.NEW, verdict={"reason": "wrong", "evidence": {}}, execution={"version": "1"},
        )  # fmt: skip
        plan = {"targets": ["onnxruntime"], "generators": ["graph"], "inputs": ["random"], "seed": 0, "seconds": 10.0,
                "programs": 0, "timeout": 10.0, "plugins": [str(evil)]}  # fmt: skip
        HuntLog(store).begin(plan, {})
    return folder


COMMANDS = [
    "replay onnxruntime",
    "reduce onnxruntime",
    "localize onnxruntime",
    "ablate onnxruntime",
    "diagnose onnxruntime",
    "bisect onnxruntime --installed",
    "export onnxruntime --as script",
    "export onnxruntime --as json",
    "hunt --resume",
]


@pytest.mark.parametrize("line", COMMANDS)
def test_what_a_store_names_is_not_imported(line: str, place: Path) -> None:
    done = driftline(place, *line.split())
    assert done.returncode == 2, done.stderr
    assert "evil.py" in done.stderr and "--plugin" in done.stderr and "Traceback" not in done.stderr
    assert not (place / "imported").exists()


@pytest.mark.parametrize("line", ["bugs list", "report"])
def test_browsing_needs_no_plugin(line: str, place: Path) -> None:
    assert driftline(place, *line.split()).returncode == 0
    assert not (place / "imported").exists()


def test_a_plugin_that_the_user_names_is_taken_wherever_it_lies(place: Path) -> None:
    (place / "moved").mkdir()
    (place / "moved" / "evil.py").write_text("print('mine')")
    done = driftline(place, "replay", "onnxruntime", "--plugin", "moved/evil.py")
    assert done.returncode == 0, done.stderr  # there is no bug: it is fixed
    assert not (place / "imported").exists()


def driftline(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "driftline", *arguments, "--store", "store"]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300)
