"""How much runs at once where nobody says it: within the processors and the memory, in a container within its own."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from driftline.execute import processors


def container(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_a_container_that_allows_fewer_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    for quota, cores in (("max 100000", 16), ("150000 100000", 2), ("50000 100000", 1), ("3200000 100000", 16)):
        monkeypatch.setattr(processors, "_CONTROL_GROUP", container(tmp_path, cpu_max=quota))
        assert processors.all_cores() == cores


def test_no_more_jobs_than_the_memory_has_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 40))
    used, cached = processors.TASK_MEMORY, processors.TASK_MEMORY // 2
    for allowed, jobs in ((2.6 * processors.TASK_MEMORY, 2), (processors.TASK_MEMORY, 1)):
        files = {"memory_max": str(int(allowed)), "memory_current": str(used), "memory_stat": f"inactive_file {cached}"}
        monkeypatch.setattr(processors, "_CONTROL_GROUP", container(tmp_path, cpu_max="max 100000", **files))
        assert processors.usual_jobs() == jobs
