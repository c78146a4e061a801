"""What is quick to import is started first, and works while the slow compilers are being imported."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from driftline.backends import BACKENDS
from driftline.campaign.crew import LocalCrew, start_seconds
from driftline.campaign.plan import choose_lanes, form_of
from driftline.core.target import Target
from driftline.execute.pool import Pool, WorkerKind
from driftline.store import Store


def test_what_is_quick_to_import_comes_first() -> None:
    lanes = [(target, form_of(BACKENDS.get(target.backend)) or "") for target in choose_lanes(None)[0]]
    order = [str(target) for target, form in sorted(lanes, key=lambda lane: start_seconds(*lane))]
    if {"onnxruntime", "inductor"} <= set(order):
        assert order.index("onnxruntime") < order.index("inductor")


def test_workers_that_are_shared_are_started_once() -> None:
    torch, onnx = (BACKENDS.get(name).start_seconds for name in ("eager", "onnx-reference"))
    assert start_seconds(Target("aot_eager"), "torch") == torch
    assert start_seconds(Target("onnxruntime"), "onnx") == onnx + BACKENDS.get("onnxruntime").start_seconds


def test_a_target_is_ready_when_both_of_its_workers_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, asked = threading.Semaphore(0), threading.Semaphore(0)

    def warm(pool: Pool, kind: WorkerKind) -> None:
        asked.release()
        assert go_on.acquire(timeout=30)

    monkeypatch.setattr(Pool, "warm", warm)
    quick, slow = (Target("onnxruntime"), "onnx"), (Target("inductor"), "torch")
    with Pool() as pool, Store.create(tmp_path / "s") as store:
        crew = LocalCrew(pool, store, 2)
        crew.begin([quick, slow], (), lambda: True)
        seen = []
        for _ in range(4):  # onnx, onnxruntime, torch, inductor
            assert asked.acquire(timeout=30)  # the one before it is done by then
            seen.append((crew.ready(*quick), crew.ready(*slow)))
            go_on.release()
        alone = LocalCrew(pool, store, 1)
        alone.begin([quick, slow], (), lambda: True)
        assert alone.ready(*slow), "nobody imports it ahead: whoever takes a turn does"
    assert seen == [(False, False), (False, False), (True, False), (True, False)]
