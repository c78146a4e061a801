"""What is quick to import is started first, and works while the slow compilers are being imported."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from driftline.backends import BACKENDS
from driftline.campaign.crew import START_SECONDS, LocalCrew, start_seconds
from driftline.campaign.plan import choose_lanes, form_of
from driftline.core.target import Target
from driftline.execute.pool import Pool, WorkerKind
from driftline.store import Store


def test_every_kind_of_worker_has_its_place_in_the_order() -> None:
    lanes = [(target, form_of(BACKENDS.get(target.backend)) or "") for target in choose_lanes(None)[0]]
    kinds = {BACKENDS.get(target.backend).family_name for target, _ in lanes}
    assert kinds <= set(START_SECONDS), "measure those that are new: benchmarks/hunt.py --only starts"
    order = [str(target) for target, form in sorted(lanes, key=lambda lane: start_seconds(*lane))]
    if {"onnxruntime", "inductor"} <= set(order):
        assert order.index("onnxruntime") < order.index("inductor")


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
