"""Releases in their order, as pip lists them; no index is asked."""

from __future__ import annotations

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
