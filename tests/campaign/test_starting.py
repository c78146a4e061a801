"""What is quick to import is started first, and works while the slow compilers are being imported."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from driftline.backends import BACKENDS
from driftline.campaign.check.forms import form_of
from driftline.campaign.hunt.crew import LocalCrew, start_seconds
from driftline.campaign.hunt.foremen import FEWEST_JOBS
from driftline.campaign.hunt.lane_opener import LaneOpener
from driftline.campaign.hunt.plan import HuntPlan, choose_lanes
from driftline.checking.batch_requests import ARMS, ArmsAnswer, ArmsRequest
from driftline.checking.kinds import worker_for_framework
from driftline.core.target import Target
from driftline.execute.pool import Pool, WorkerKind
from driftline.generate import GENERATORS, usual_generators
from driftline.store import Store
from driftline.store.hunts import HuntLog


def test_what_is_quick_to_import_comes_first() -> None:
    lanes = [(target, form_of(BACKENDS.get(target.backend)) or "") for target in choose_lanes(None)[0]]
    order = [str(target) for target, form in sorted(lanes, key=lambda lane: start_seconds(*lane))]
    if {"onnxruntime", "inductor"} <= set(order):
        assert order.index("onnxruntime") < order.index("inductor")


def test_workers_that_are_shared_are_started_once() -> None:
    torch, onnx = (BACKENDS.get(name).start_seconds for name in ("eager", "onnx-reference"))
    assert start_seconds(Target("aot_eager"), "torch") == torch
    assert start_seconds(Target("onnxruntime"), "onnx") == onnx + BACKENDS.get("onnxruntime").start_seconds


FORMS = ("torch", "onnx", "jax", "tensorflow")
ARMS_ALONE = """
import json, sys
from driftline.generate import GENERATORS, usual_generators
names = [name for name in usual_generators() if not GENERATORS.get(name).needs_framework]
found = {form: {n: list(GENERATORS.get(n).arms(form)) for n in names if form in GENERATORS.get(n).forms}
         for form in sys.argv[1:]}
print(json.dumps([found, [name for name in sys.modules if name in (*sys.argv[1:], "keras", "jaxlib")]]))
"""


def test_most_arms_are_known_without_a_framework() -> None:
    done = subprocess.run([sys.executable, "-c", ARMS_ALONE, *FORMS], capture_output=True, text=True, check=True)
    found, imported = json.loads(done.stdout)
    assert not imported
    assert all(len(arms) >= 5 and all(len(arms[name]) > 100 for name in ("alone", "graph")) for arms in found.values())


def test_they_are_those_that_a_worker_lists(pool: Pool) -> None:
    # By name: other tests load plugins with generators of their own.
    built_in = ("alone", "chains", "constructs", "graph", "idioms", "layers", "mutate")
    names = tuple(name for name in built_in if not GENERATORS.get(name).needs_framework)
    assert len(names) > 5
    for form in ("torch", "onnx"):
        listed = pool.ask(worker_for_framework(form), ARMS, ArmsRequest(form, names, ()))
        here = {n: tuple(GENERATORS.get(n).arms(form)) for n in names if form in GENERATORS.get(n).forms}
        assert listed == ArmsAnswer(here, {})


def test_lanes_open_before_any_framework_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And ask a worker for the rest when it is needed; a hunt that is resumed knows it from the start."""
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path))
    asked: list[str] = []

    def ask(pool: Pool, kind: WorkerKind, task: object, request: ArmsRequest) -> ArmsAnswer:
        asked.append(request.form)
        return ArmsAnswer({"optests": ("Abs",)}, {})

    monkeypatch.setattr(Pool, "ask", ask)
    plan = HuntPlan(("onnxruntime", "openvino", "inductor"), tuple(usual_generators()))
    with Pool() as pool:
        lanes, missing = LaneOpener(pool, plan, None).open()
        assert not asked and not missing
        assert [lane.arms["optests"] for lane in lanes] == [("Abs",)] * 3
        assert asked == ["onnx", "torch"], "each language once"
        again, _ = LaneOpener(pool, plan, None).open()
        assert len(asked) == 2
        assert [list(lane.arms.items()) for lane in again] == [list(lane.arms.items()) for lane in lanes]
        named, _ = LaneOpener(pool, replace(plan, generators=("optests",)), None).open()
        assert len(asked) == 2 and list(named[0].arms) == ["optests"], "the same question"


def test_a_generator_without_its_package_is_told_when_that_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path))
    monkeypatch.setattr(Pool, "ask", lambda *_: ArmsAnswer({}, {"optests": "expecttest"}))
    plan = HuntPlan(("inductor",), ("graph", "optests"))
    told: list[tuple[str, ...]] = []
    with Pool() as pool:
        opener = LaneOpener(pool, plan, None, lambda *what: told.append(what))
        (lane,), _ = opener.open()
        assert not opener.left_out
        assert not lane.arms["optests"]
        assert told == [("torch", "optests", "the package expecttest is not installed")]
        later = LaneOpener(pool, plan, None, lambda *what: told.append(what))
        later.open()
    assert opener.left_out == later.left_out and "expecttest" in opener.left_out[0]
    assert len(told) == 1, "known from the start, it is told there"
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin(plan.to_json(), {"left_out": []})
        for _ in range(2):
            log.note_left_out(hunt, opener.left_out)
        assert log.hunt(hunt.id).environment["left_out"] == opener.left_out and log.hunt(hunt.id).run == hunt.run


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


def test_the_second_reference_of_onnx_models_comes_before_other_frameworks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, no wrong result of an ONNX model is a bug."""
    order: list[str] = []
    done = threading.Event()

    def warm(pool: Pool, kind: WorkerKind) -> None:
        order.append(kind.name)
        if len(order) == 5:
            done.set()

    monkeypatch.setattr(Pool, "warm", warm)
    lanes = [(Target("onnxruntime"), "onnx"), (Target("openvino"), "onnx"), (Target("xla"), "jax")]
    with Pool() as pool, Store.create(tmp_path / "s") as store:
        LocalCrew(pool, store, 2).begin(lanes, (), lambda: True)
        assert done.wait(30)
    torch = BACKENDS.get("eager").family_name
    assert order == ["onnx-reference", "onnxruntime", "openvino", torch, "xla"]


def test_with_many_jobs_it_is_imported_though_no_lane_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(Pool, "warm", lambda pool, kind: warmed.append(kind.name))
    with Pool() as pool, Store.create(tmp_path / "s") as store:
        for jobs in (2, FEWEST_JOBS):
            LocalCrew(pool, store, jobs).begin([(Target("onnxruntime"), "onnx")], (), lambda: True)
            for thread in threading.enumerate():
                if thread.name.startswith("warm "):
                    thread.join(30)
    torch = BACKENDS.get("eager").family_name
    assert sorted(warmed) == sorted(2 * ["onnx-reference", "onnxruntime"] + [torch])
