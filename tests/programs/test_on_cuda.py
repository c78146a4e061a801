"""What a target on a GPU needs: flags, devices, and a script that goes there. None of it needs a GPU to be tested."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from driftline.backends import BACKENDS
from driftline.backends._torch import placed
from driftline.backends.base import Unsupported
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.report.scripts.render import render_script

FUNCTION = """
import torch


def model(x):
    return torch.relu(x), {"twice": x * 2}


def program():
    return model, (torch.tensor([1.0, -2.0]),)
"""
MODULE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([3.0, 5.0]))

    def forward(self, x):
        return self.weight * x


def program():
    return Net().eval(), (torch.tensor([1.0, -2.0]),)
"""
CALLED_BY_NAME = """
import torch


def program():
    return lambda x: torch.nn.functional.relu(x), {"x": torch.tensor([1.0, -2.0])}
"""
# What `cuda` and `cpu` do where there is no GPU: they leave a trace.
STAND_IN = """
import torch

torch.Tensor.cuda = lambda self: (print("to the GPU"), self)[1]
torch.nn.Module.cuda = lambda self: (print("weights to the GPU"), self)[1]
"""


def program_of(text: str, folder: Path) -> Program:
    path = folder / "program"
    path.write_bytes(SourceBundle("model.py", "program", {"model.py": text}).dump())
    specs = (TensorSpec("x", "float32", (2,)),)
    return Program("source", "torch", file_digest(path), path, "model.py:program", specs, ("output",), ())


def script(text: str, target: str, folder: Path, *, grad: bool = False) -> str:
    inputs = {"x": np.array([1.0, -2.0], np.float32)}
    return render_script(program_of(text, folder), inputs, target, grad=grad)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (FUNCTION, "inductor:device=cuda"),
        pytest.param(MODULE, "aot_eager:device=cuda", marks=pytest.mark.slow),
        (MODULE, "eager:device=cuda"),
        (CALLED_BY_NAME, "eager:device=cuda"),
    ],
)
def test_a_script_goes_to_the_gpu_and_comes_back(text: str, target: str, tmp_path: Path) -> None:
    made = script(text, target, tmp_path)
    ran = subprocess.run([sys.executable, "-c", STAND_IN + made], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert "to the GPU" in lines
    assert ("weights to the GPU" in lines) == (text is MODULE)
    expected, got = (next(line for line in lines if line.startswith(word)) for word in ("expected:", "got:"))
    assert expected.partition(":")[2].strip() == got.partition(":")[2].strip()


def test_a_script_computes_as_the_target_declares(tmp_path: Path) -> None:
    plain = script(FUNCTION, "inductor:device=cuda", tmp_path)
    assert "allow_tf32 = False" in plain
    assert "allow_tf32 = True" in script(FUNCTION, "inductor:device=cuda:arithmetic=tf32", tmp_path)
    assert "on_cuda" not in script(FUNCTION, "inductor", tmp_path)


def test_gradients_on_two_devices_have_no_short_script(tmp_path: Path) -> None:
    assert "has no short call" in script(MODULE, "inductor:device=cuda", tmp_path, grad=True)


def test_a_target_sets_the_flags_of_a_gpu() -> None:
    code = (
        "import torch; from driftline.backends._torch import placed\n"
        "torch.cuda.is_available = lambda: True\n"
        "def flags(): return (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32,\n"
        "    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction)\n"
        "before = flags(); placed(torch.sin, {}); assert flags() == before\n"
        "placed(torch.sin, {'device': 'cuda'}); print(flags())\n"
        "placed(torch.sin, {'device': 'cuda', 'arithmetic': 'tf32+half-accumulation'}); print(flags())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.splitlines() == ["(False, False, False)", "(True, True, True)"]


def test_a_gpu_is_told_what_its_target_declares_and_a_processor_is_not() -> None:
    declared = {"device": "cuda", "arithmetic": "tf32"}
    assert Target.parse("inductor:device=cuda:arithmetic=tf32").told == declared
    assert Target.parse("inductor:freezing=true:arithmetic=tf32").told == {"freezing": "true"}


def test_without_a_gpu_a_target_declines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(Unsupported, match="no GPU is visible"):
        placed(len, {"device": "cuda"})


def test_what_only_a_library_of_the_gpu_declines_is_no_bug() -> None:
    eager = BACKENDS.get("eager")
    assert eager.is_rejection(RuntimeError("cudnn RNN backward can only be called in training mode"))
    assert not eager.is_rejection(RuntimeError("Expected all tensors to be on the same device"))


@pytest.mark.parametrize(("name", "goes"), [("eager", True), ("aot_eager", True), ("torchscript", False)])
def test_a_device_is_named_only_where_there_is_code_for_it(
    name: str, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = BACKENDS.get(name)
    for there in (True, False):
        monkeypatch.setattr("torch.cuda.is_available", lambda there=there: there)
        assert ("cuda" in backend.find_devices()) == (goes and there)
    with contextlib.nullcontext() if goes else pytest.raises(DriftlineError, match="device=cuda is not valid"):
        backend.validate({"device": "cuda"}, f"{name}:device=cuda")
