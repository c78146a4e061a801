"""Releases in their order, as pip lists them; no index is asked."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from driftline.core.errors import DriftlineError
from driftline.execute import releases

LISTING = "pkg (1.10.0)\nAvailable versions: 1.10.0, 1.9.2+cpu, 1.9.2, 1.9.0.post1, 1.9.0\n  INSTALLED: 1.9.0\n"


def answer(monkeypatch: pytest.MonkeyPatch, **said: str) -> None:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, said.get(command[-1], ""), "ERROR: No matching distribution\n")

    monkeypatch.setattr(releases.subprocess, "run", run)


def test_the_oldest_comes_first_and_local_builds_are_one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, pkg=LISTING)
    assert releases.list_releases("pkg") == ["1.9.0", "1.9.0.post1", "1.9.2", "1.10.0"]


def test_releases_older_than_their_compiled_half_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, jax=LISTING, jaxlib="Available versions: 1.10.0, 1.9.1\n")
    assert releases.list_releases("jax") == ["1.9.2", "1.10.0"]


def test_an_unknown_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch)
    with pytest.raises(DriftlineError, match=r"releases of pkg cannot be listed.*--releases"):
        releases.list_releases("pkg")


LOCK = """
[[packages]]
name = "torch"
version = "2.11.0"
wheels = [{ url = "https://index.invalid/torch.whl", size = 500 }]
[[packages]]
name = "nvidia_cublas"
version = "13.1"
wheels = [{ url = "https://index.invalid/cublas.whl", size = 9000 }]
[[packages]]
name = "numpy"
version = "2.4.6"
wheels = [{ url = "https://index.invalid/numpy.whl", size = 20 }]
"""


def test_the_size_of_torch_is_told_without_its_gpu_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases.shutil, "which", lambda name, path="": "uv")
    monkeypatch.setattr(releases.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, LOCK))
    releases._resolved.cache_clear()
    wheels = releases.resolve(["torch==2.11.0", "numpy"])
    assert [wheel.pin for wheel in releases.for_cpu(wheels)] == ["torch==2.11.0", "numpy==2.4.6"]
    assert releases.download_size(["torch==2.11.0", "numpy"]) == 520
    releases._resolved.cache_clear()


def test_pip_answers_where_there_is_no_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"metadata": {"name": "Num_Py", "version": "2"}, "download_info": {"url": "file:///nowhere/n.whl"}}
    said = json.dumps({"install": [entry]})
    monkeypatch.setattr(releases.shutil, "which", lambda name, path="": None)
    monkeypatch.setattr(releases.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, said))
    releases._resolved.cache_clear()
    assert releases.resolve(["num-py"]) == (releases.Wheel("num-py", "2", "file:///nowhere/n.whl"),)
    assert releases.download_size(["num-py"]) is None, "its size is unknown"
    releases._resolved.cache_clear()
