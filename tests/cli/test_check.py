"""`check`, `bugs` and `replay` as a user types them, on real compilers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from onnx import TensorProto, helper, numpy_helper

from driftline.cli import run
from driftline.store import Store


def relu_clip() -> bytes:
    """A known bug of ONNX Runtime: fusing Relu into a float64 Clip makes it refuse the model."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Clip", ["r", "low", "high"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["n"])],
        [numpy_helper.from_array(np.array(v), n) for n, v in (("low", -1.0), ("high", 1.0))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8
    return bytes(model.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relu_clip.onnx").write_bytes(relu_clip())
    return tmp_path


def answer(capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    value = json.loads(capfd.readouterr().out)
    assert isinstance(value, dict)
    return value


def test_from_a_failure_to_its_replay(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("check relu_clip.onnx --targets onnxruntime,onnxruntime:opt=off,onnx-reference --json".split()) == 1
    found = answer(capfd)
    assert found["schema"] == 1
    rows = {row["target"]: row for row in found["results"]}  # type: ignore[attr-defined]
    assert rows["onnxruntime:opt=off"]["verdict"] == "pass"
    assert rows["onnx-reference"]["verdict"] == "pass"
    wrong = rows["onnxruntime"]
    assert (wrong["verdict"], wrong["outcome"], wrong["stage"]) == ("fail", "ERROR", "COMPILE")
    assert {"target", "outcome", "stage", "verdict", "evidence", "bug", "durations"} <= set(wrong)
    assert wrong["failed_runs"] == [2, 2]
    (bug,) = found["bugs"]  # type: ignore[misc]
    assert bug["id"] == wrong["bug"]  # type: ignore[index]

    command = bug["replay"].split()  # type: ignore[index]
    assert command[0] == "driftline"
    assert run([*command[1:], "--json"]) == 1
    assert answer(capfd)["answer"] == "still fails"
    assert run([*command[1:], "--target", "onnxruntime:opt=off", "--json"]) == 0
    assert answer(capfd)["answer"] == "passes", "another target says nothing of a fix"
    assert run([*command[1:], "--target", "onnxruntime:opt=off"]) == 0
    assert ": passes" in capfd.readouterr().out

    assert run(["bugs", "list", "--json"]) == 0
    (listed,) = answer(capfd)["bugs"]  # type: ignore[misc]
    assert listed["status"] == "confirmed"  # type: ignore[index]  # by the replay; a cause decides nothing
    assert [cause["id"] for cause in listed["causes"]] == ["onnxruntime/relu-clip-of-float64-and-integers"]  # type: ignore[index]
    assert run(["bugs", "mark", "onnxruntime", "confirmed"]) == 0
    assert run(["bugs", "show", "onnxruntime"]) == 0
    shown = capfd.readouterr().out
    assert "confirmed" in shown and "Clip" in shown and "driftline replay" in shown


def test_the_table_for_people_says_what_to_do_next(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("check relu_clip.onnx --targets onnxruntime --store found".split()) == 1
    out = capfd.readouterr().out
    assert "fail" in out and "replay: driftline replay onnxruntime-" in out and "--store found" in out
    assert "explain it: driftline diagnose onnxruntime-" in out


def test_a_clean_program_leaves_no_bug(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("check relu_clip.onnx --targets onnxruntime:opt=off --inputs random --samples 3".split()) == 0
    with Store.open(folder / ".driftline") as store:
        assert store.bugs() == []


def test_a_user_brings_inputs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.savez(folder / "mine.npz", x=np.array([-2.0, 0.5, 3.0, np.nan]))
    assert run("check relu_clip.onnx --targets onnxruntime:opt=off --inputs mine.npz --json".split()) == 0
    assert answer(capfd)["samples"] == ["file mine.npz"]


NETWORK = """
from pathlib import Path

import torch
from parts import head

def program():
    scale = float((Path(__file__).parent / "scale.txt").read_text())
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), head()).eval()
    return (lambda x: model(x) * scale), (torch.randn(2, 4),)

def restless():
    import os
    value = int.from_bytes(os.urandom(4), "little")
    return torch.nn.Linear(3, 3).eval(), (torch.full((1, 3), float(value)),)
"""


@pytest.fixture
def network(folder: Path) -> Path:
    (folder / "network.py").write_text(NETWORK)
    (folder / "parts.py").write_text("import torch\n\ndef head():\n    return torch.nn.Softmax(-1)\n")
    (folder / "scale.txt").write_text("2.0")
    return folder


def test_a_program_with_neighbours(network: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Modules and data files beside the program are found, and a torch program reaches the ONNX compilers."""
    assert run("check network.py:program --targets eager,onnxruntime --json".split()) == 0
    rows = answer(capfd)["results"]
    assert [row["verdict"] for row in rows] == ["pass", "pass"]  # type: ignore[attr-defined]


def test_a_factory_that_changes_its_mind_is_not_compared(network: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("check network.py:restless --targets eager --json".split()) == 5
    (row,) = answer(capfd)["results"]  # type: ignore[misc]
    assert row["verdict"] == "inconclusive" and "same model" in row["reason"]  # type: ignore[index]


def test_gradients(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "import torch\n\ndef program():\n    return torch.nn.Linear(3, 2), (torch.randn(4, 3),)\n"
    (folder / "linear.py").write_text(text)
    assert run("check linear.py:program --targets aot_eager,onnxruntime --grad --json".split()) == 0
    rows = {row["target"]: row for row in answer(capfd)["results"]}  # type: ignore[attr-defined]
    assert rows["aot_eager"]["verdict"] == "pass"
    assert rows["onnxruntime"]["verdict"] == "rejected"


def test_killed_in_the_middle_nothing_is_left_running(folder: Path) -> None:
    """kill -9 of the command: its workers go too, and the store can be read."""
    loop = "def forever(x):\n    while True:\n        x = x + 1\n"
    text = f"import torch\n\n{loop}\ndef program():\n    return forever, (torch.ones(2),)\n"
    (folder / "loop.py").write_text(text)
    code = "import sys; from driftline.cli import main; sys.argv = ['driftline', *sys.argv[1:]]; main()"
    command = [sys.executable, "-c", code, "check", "loop.py:program", "--targets", "eager"]
    process = subprocess.Popen(command, cwd=folder)
    parent = psutil.Process(process.pid)
    family: list[psutil.Process] = []
    while len(family) < 2:  # the nursery and its worker
        assert process.poll() is None
        family = parent.children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    gone, alive = psutil.wait_procs(family, timeout=10)
    assert not alive and len(gone) == len(family)
    with Store.open(folder / ".driftline") as store:
        assert store.bugs() == []


TRAINED = """
import torch


def program():
    return torch.sin, (torch.tensor([[3.0, 1.0], [2.0, 0.5]], requires_grad=True),)
"""


def test_a_row_says_what_was_compared(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "trained.py").write_text(TRAINED)
    command = ["check", "trained.py:program", "--targets", "aot_eager", "--json"]
    assert run([*command, "--calls", "1", "--no-grad"]) == 0
    (row,) = answer(capfd)["results"]  # type: ignore[misc]
    assert row["compared"] == ["outputs"]
    assert run([*command, "--calls", "2"]) == 0
    (row,) = answer(capfd)["results"]  # type: ignore[misc]
    plain = ["outputs", "other values", "first values again"]
    assert row["compared"] == [*plain, "gradient", "gradient of other values"]
    assert run([*command, "--no-grad"]) == 0
    (row,) = answer(capfd)["results"]  # type: ignore[misc]
    assert row["compared"] == [*plain, "other size"]
    assert run([*command, "--grad", "--calls", "1"]) == 0
    (row,) = answer(capfd)["results"]  # type: ignore[misc]
    assert row["compared"] == ["outputs", "gradient"]


def test_a_number_of_calls_that_there_is_not_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "relu_clip.onnx", "--calls", "4"]) == 2
    assert "--calls" in capfd.readouterr().err
