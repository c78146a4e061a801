"""A check runs with the oldest and with the newest torch, ONNX and ONNX Runtime that pyproject.toml allows.

Each pair of releases is installed into an environment of its own, for the CPU, with what Driftline needs; about
a gigabyte is downloaded. Without a package index the test is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from driftline.execute.installer import Installer
from driftline.execute.releases import resolve

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("torch", "onnx", "onnxruntime")
PROGRAM = """\
import torch


def program():
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU(), torch.nn.LayerNorm(4))
    for at, parameter in enumerate(model.parameters()):
        torch.nn.init.constant_(parameter, 0.25 * (at + 1))
    return model, (torch.linspace(-1, 1, 24).reshape(3, 8),)
"""


def wanted(*, oldest: bool) -> list[str]:
    """The requirements of Driftline and of the extras under test, the extras at their lower bounds if `oldest`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    found = [each for each in map(Requirement, lines) if each.name != "driftline"]
    if not oldest:
        return [*map(str, found), *project["dependencies"]]
    bounds = [next(part.version for part in each.specifier if part.operator == ">=") for each in found]
    return [*(f"{each.name}=={bound}" for each, bound in zip(found, bounds, strict=True)), *project["dependencies"]]


def environment_with(requirements: Sequence[str], folder: Path) -> str:
    """Install into a new environment, with Driftline from its source; return its python."""
    if not resolve(requirements):
        pytest.skip("no package index has these releases")
    lock = os.open(folder.with_suffix(".lock"), os.O_CREAT | os.O_RDWR)
    try:
        installer = Installer(folder, lock, print)
        installer.install(list(requirements))
    finally:
        os.close(lock)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "driftline.pth").write_text(f"{ROOT / 'src'}\n")
    return installer.python


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("oldest", [True, False], ids=["oldest", "newest"])
def test_a_check_runs_with_the_releases_at_the_ends_of_the_ranges(oldest: bool, tmp_path: Path) -> None:
    python = environment_with(wanted(oldest=oldest), tmp_path / "environment")
    (tmp_path / "net.py").write_text(PROGRAM)
    command = [
        python,
        "-m",
        "driftline",
        "check",
        "net.py:program",
        "--json",
        "--targets",
        "eager,inductor,onnxruntime",
    ]
    surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["target"]: row["verdict"] for row in json.loads(done.stdout)["results"]}
    assert rows == {"eager": "pass", "inductor": "pass", "onnxruntime": "pass"}
