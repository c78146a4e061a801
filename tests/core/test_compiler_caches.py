"""Entries of compilers' caches that are cut short are known, and removed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from driftline.core import compiler_caches


@pytest.fixture
def library(tmp_path: Path) -> Path:
    made = tmp_path / "kernel.so"
    subprocess.run(["gcc", "-shared", "-x", "c", "-", "-o", str(made)], input=b"int f(void) { return 1; }", check=True)
    return made


def test_a_library_that_is_cut_anywhere_is_damaged(library: Path) -> None:
    assert not compiler_caches.is_damaged(library)
    whole = library.read_bytes()
    for size in (0, 10, 63, len(whole) // 2, len(whole) - 1):
        library.write_bytes(whole[:size])
        assert compiler_caches.is_damaged(library), size


def test_damaged_entries_are_removed_and_others_stay(tmp_path: Path, library: Path) -> None:
    texts = {"whole.py": "x = 1\n", "cut.py": "def f(x):\n    return (x", "empty.cpp": "", "build.lock": "", "a.h": "1"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert compiler_caches.remove_damaged([tmp_path]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h", "build.lock", "kernel.so", "whole.py"]
    assert compiler_caches.remove_all([tmp_path]) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["build.lock"]


def test_a_process_is_pointed_to_empty_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in compiler_caches.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", "/elsewhere")
    compiler_caches.point_elsewhere(tmp_path)
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / "triton_cache_dir")
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
