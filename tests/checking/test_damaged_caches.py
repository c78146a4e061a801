"""A damaged entry of a compiler's cache is not a bug of the compiler: it is removed, and the program passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from driftline.core.config import cache_home
from driftline.core.verdict import Kind
from typed import typed

PLUGIN = str(Path(__file__).with_name("caching_compilers.py"))
PROGRAM = """
import torch


def program():
    return lambda x: (x.sin() * 3).cumsum(0), (torch.arange(300) / 7,)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "p.py"
    path.write_text(PROGRAM)
    return f"{path}:program"


def check(program: str, target: str, store: Path) -> tuple[int, str]:
    ran = typed("check", program, "--targets", target, "--plugin", PLUGIN, "--store", str(store))
    return ran.returncode, " ".join(ran.stdout.split())


@pytest.mark.parametrize("left", ["", "so ("])
def test_a_damaged_entry_is_removed_and_the_program_passes(
    program: str, store_folder: Path, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTLINE_TEST_LEFT", left)
    plain = [sys.executable, "-m", "driftline", "check", program, "--targets", "keeps-code", "--plugin", PLUGIN]
    ran = subprocess.run([*plain, "--store", str(store_folder)], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    said = " ".join(ran.stdout.split())
    assert "vanished with an empty cache: a damaged cache entry was removed" in said


def test_an_error_that_comes_without_kept_code_too_is_a_finding(program: str, store_folder: Path) -> None:
    code, said = check(program, "always-fails", store_folder)
    assert code == 1
    assert f"{Kind.ERROR}" in said and "failed in 2 of 2 runs" in said


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 2])
def test_inductor_passes_with_a_cache_that_was_cut(program: str, store_folder: Path, part: int) -> None:
    """`part`: each file is left with this part of its bytes, or none."""
    assert check(program, "inductor", store_folder)[0] == 0
    for folder, _, names in os.walk(cache_home() / "compilers" / "inductor"):
        for path in (Path(folder) / name for name in names if not name.endswith(".lock")):
            os.truncate(path, path.stat().st_size // part if part else 0)
    code, said = check(program, "inductor", store_folder)
    assert code == 0, said
