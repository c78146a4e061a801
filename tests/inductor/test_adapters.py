"""The page that adds an accelerator: its code, run as a reader would."""

from __future__ import annotations

import abc
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driftline.backends import BACKENDS
from driftline.cli import run as command
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.inductor import AcceleratorAdapter, AcceleratorCapabilities

pytest.importorskip("torch")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "add-an-accelerator.md"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page."""
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_a_backend_of_torch_compile(folder: Path) -> None:
    done = subprocess.run([sys.executable, "model.py"], capture_output=True, text=True, cwd=folder, timeout=500)
    assert re.fullmatch(r"tensor\((0\.|\d\.\d+e-0[6-9]).*\)\n", done.stdout), done.stdout + done.stderr


def test_it_is_a_target(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--targets", "tinychip", "--plugin", "tinychip.py", "--store", "s"]
    assert command(["check", "program.py:covered", *arguments]) == 0
    assert "tinychip" in capfd.readouterr().out
    assert command(["check", "program.py:not_covered", *arguments]) == 5
    said = " ".join(capfd.readouterr().out.split())
    assert "rejected" in said
    assert "aten.sin" in said
    assert not BACKENDS.get("tinychip").gradients


def _compile(self: Any, module: Any, inputs: Any) -> Any:
    return module


def _of_a_base(self: Any, module: Any, inputs: Any) -> Any:
    raise AssertionError("never called")


def _with_a_device(self: Any, device: int) -> None:
    pass


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"compile": _compile}, "Chip has no name"),
        ({"name": "my chip", "compile": _compile}, "'my chip' cannot be a target"),
        ({"name": "3dchip", "compile": _compile}, "begin with a letter"),
        ({"name": 5, "compile": _compile}, "5 cannot be a target"),
        ({"name": "chip", "compile": abc.abstractmethod(_of_a_base)}, "Chip is abstract"),
        ({"name": "chip", "compile": _compile, "__init__": _with_a_device}, "Chip() must work without arguments"),
        ({"name": "chip", "complie": _compile}, "Chip has no method compile(self, module, inputs)"),
        ({"name": "chip", "compile": _compile, "graph": "fx"}, "'fx' is not valid; it is 'aten' or 'torch'"),
        ({"name": "chip", "compile": _compile, "capabilities": {"alignment": 8}}, "must be AcceleratorCapabilities"),
        (
            {"name": "chip", "compile": _compile, "capabilities": AcceleratorCapabilities(dtypes=("flot32",))},
            "'flot32' is not a dtype. Did you mean 'float32'",
        ),
    ],
)
def test_a_mistake_in_an_adapter_is_said_when_it_is_defined(members: dict[str, Any], said: str) -> None:
    """Said in a worker, it would look like a device that takes nothing, or like a bug of it."""
    chip = abc.ABCMeta("Chip", (AcceleratorAdapter,), members)
    for define in (chip.driftline_backend, chip.backend):
        with pytest.raises(DriftlineError) as refused:
            define()
        assert said in str(refused.value)


def test_one_name_where_several_are_meant_is_refused() -> None:
    with pytest.raises(DriftlineError, match=r"write dtypes=\('float32',\)"):
        AcceleratorCapabilities(dtypes="float32")  # type: ignore[arg-type]


@pytest.mark.parametrize("strange", [{"alignment": "8"}, {"alignment": 0}, {"constraints": 5}, {"constraints": (5,)}])
def test_capabilities_of_another_type_are_refused(strange: dict[str, Any]) -> None:
    with pytest.raises(DriftlineError, match=f"AcceleratorCapabilities: {next(iter(strange))}"):
        AcceleratorCapabilities(**strange)


@dataclass(frozen=True)
class FurtherCapabilities(AcceleratorCapabilities):
    lanes: int = 8


class FamilyAdapter(AcceleratorAdapter):
    """What the chips of one vendor share; it has no name, and is no target itself."""

    capabilities = FurtherCapabilities(dtypes=("float32",))

    def compile(self, module: Any, inputs: Any) -> Any:
        return module


@pytest.mark.parametrize("name", ["chip", "acme.npu", "Chip-2_b", "_chip"])
def test_every_name_that_a_target_can_have_is_taken_from_a_class_between(name: str) -> None:
    chip = type("Chip", (FamilyAdapter,), {"name": name})
    assert chip.driftline_backend().name == Target.parse(name).backend


@pytest.mark.slow
def test_it_passes_the_conformance_suite(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tinychip.py"],
        capture_output=True, text=True, cwd=folder, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout


@pytest.mark.slow
def test_it_is_hunted(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Programs reach it, and what it rejects is no bug."""
    arguments = ["--targets", "tinychip", "--plugin", "tinychip.py", "--store", "s", "--programs", "40", "--json"]
    assert command(["hunt", *arguments]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["programs"]["tinychip"] >= 40 and told["judged"] > 0 and told["bugs"] == []


@pytest.mark.slow
def test_it_is_measured(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--size", "small", "--models", "mamba", "--backends", "tinychip", "--repeat", "8", "--json"]
    assert command(["bench", *arguments, "--plugin", "tinychip.py", "--out", "run"]) == 0
    eager, chip = json.loads(capfd.readouterr().out)["rows"]
    assert eager["verdict"] == "pass" and eager["speedup"]
    assert chip["outcome"] == "REJECTED" and "size" in chip["problem"] and chip["verdict"] == "rejected"
