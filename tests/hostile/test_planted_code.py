"""A worker cannot place code where a process without a sandbox would load it, nor anything where the parent looks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftline.core.config import cache_home
from driftline.core.task import Task
from driftline.execute.pool import Pool, WorkerKind
from driftline.execute.sandbox import MORE, SWITCH, shortcomings
from driftline.execute.workspace import Workspace

PATHS = ("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
FOLDERS = ("lasting cache", "all of the cache", "nursery", "logs", "programs", "scratch itself")


WRITE: Task[dict[str, Any], dict[str, Any]] = Task("test_planted_code:write_everywhere", dict[str, Any], dict[str, Any])


@WRITE.serve
def write_everywhere(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """In a worker: try to make a file in each folder, and to replace each folder of the workspace."""
    done = {}
    for name, folder in payload["folders"].items():
        try:
            (Path(folder) / "planted.so").write_text("planted")
            done[name] = True
        except OSError:
            done[name] = False
    for name in ("tmp", "jobs", "compilers", "logs"):
        place = Path(payload["folders"]["scratch itself"]) / name
        try:
            place.rename(place.with_name(f"{name}-moved"))
            place.with_name(f"{name}-moved").rename(place)
            done[f"replace {name}"] = True
        except OSError:
            done[f"replace {name}"] = False
    own = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    own.mkdir(parents=True, exist_ok=True)
    (own / "kernel.so").write_text("own")
    return {"done": done, "own": str(own)}


def _attack(pool: Pool, switch: str) -> tuple[dict[str, bool], Path]:
    root, cache = pool.workspace.root, cache_home()
    places = (cache / "compilers", cache, root / "nursery", root / "logs", root / "programs", root)
    folders = {name: str(place) for name, place in zip(FOLDERS, places, strict=True)}
    kind = WorkerKind("hostile", variables=(PATHS, (SWITCH, switch), (MORE, "")))
    report = pool.run(kind, WRITE, {"folders": folders})
    assert report.answer is not None, report.log
    return report.answer["done"], Path(report.answer["own"])


@pytest.fixture
def own_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """A pool whose caches and scratch lie in a folder of the test."""
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path / "cache"))
    with Pool(Workspace()) as pool:
        yield pool


@pytest.mark.skipif(bool(shortcomings()), reason="this kernel lacks a layer of the sandbox")
def test_worker_writes_to_caches_of_its_own_alone(own_pool: Pool) -> None:
    done, own = _attack(own_pool, "on")
    assert len(done) == len(FOLDERS) + 4 and not any(done.values())
    assert own.is_relative_to(own_pool.workspace.root / "compilers")
    assert not (cache_home() / "compilers" / "inductor" / "kernel.so").exists()


def test_worker_without_a_sandbox_writes_everywhere(own_pool: Pool) -> None:
    done, _ = _attack(own_pool, "off")
    assert all(done.values())


def test_caches_of_workers_go_with_the_run(own_pool: Pool) -> None:
    _, own = _attack(own_pool, "on")
    assert (own / "kernel.so").exists()
    own_pool.close()
    assert not own.exists()
