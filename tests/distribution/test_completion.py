"""Completion offers commands, targets, bugs and models, through the protocol that the shells' scripts speak."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from driftline.core.verdict import Kind
from driftline.store import Store

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "report"))

from filled_store import add_bug

DRIFTLINE = [sys.executable, "-m", "driftline"]


def offered(line: str, folder: Path) -> list[str]:
    """What bash is told when the last word of a line is half typed."""
    told = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_DRIFTLINE_COMPLETE": "bash_complete"}
    done = subprocess.run(DRIFTLINE, cwd=folder, env={**os.environ, **told}, capture_output=True, text=True)
    assert not done.stderr
    return [answer.partition(",")[2] for answer in done.stdout.splitlines() if answer]


@pytest.mark.parametrize(
    ("line", "offer"),
    [
        ("driftline che", ["check"]),
        ("driftline bugs ma", ["mark"]),
        ("driftline bugs mark x fi", ["fixed"]),
        ("driftline check model.onnx --targets eager,induct", ["eager,inductor"]),
        ("driftline hunt --generators graph,mut", ["graph,mutate"]),
        ("driftline check model:bert-bas", ["model:bert-bas", "model:bert-base"]),
        ("driftline inputs conv", ["conv", "convert"]),
        ("driftline inputs convert a.npz b.ktest --sp", ["--spec"]),
        ("driftline replay x --target aot_eager_", ["aot_eager_decomp"]),
    ],
)
def test_names_are_offered(line: str, offer: list[str], tmp_path: Path) -> None:
    assert offered(line, tmp_path) == offer


def test_bugs_of_the_store_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIFTLINE_STORE", raising=False)
    assert offered("driftline bugs show t", tmp_path) == []  # no store, and no words about it
    with Store.create(tmp_path / ".driftline") as store, Store.create(tmp_path / "other") as other:
        here, there = add_bug(store, Kind.WRONG_VALUE, compiler="tvm"), add_bug(other, Kind.CRASH, compiler="tvm")
    assert offered("driftline bugs show t", tmp_path) == [here.id]
    assert offered("driftline bugs show --store other t", tmp_path) == [there.id]
    assert offered("driftline reduce tv", tmp_path) == ["tv", here.id]  # a file that begins so, or the bug


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_one(shell: str, tmp_path: Path) -> None:
    done = subprocess.run([*DRIFTLINE, "completion", shell], capture_output=True, text=True, check=True)
    assert "_DRIFTLINE_COMPLETE" in done.stdout
    if shutil.which(shell):
        (tmp_path / "script").write_text(done.stdout)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)
