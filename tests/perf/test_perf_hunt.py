"""`driftline perf hunt`: programs that are large enough, a journal that survives, slow operators that are cut out."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

import driftline.testing
from driftline.checking.checker import Checker
from driftline.cli import run as command
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.operator import Draw
from driftline.generate.random_graph import drawn_graph
from driftline.measure.estimate import Estimate
from driftline.perf.candidates import MOST_ELEMENTS, TARGET_ELEMENTS, candidate, candidate_case, enlarged, only_computed
from driftline.perf.comparison import RatioMeasured, Stopwatch
from driftline.perf.hunt import PerfHunt, parts_of
from driftline.perf.journal import PerfJournal, PerfPlan
from driftline.store import Store

PLUGIN = str(Path(driftline.testing.__file__).with_name("slow.py"))
LARGE = TensorType("float32", (512, 512))


def test_programs_are_the_same_for_a_seed_and_large_enough() -> None:
    drawn = [candidate(3, number) for number in range(20)]
    assert drawn == [candidate(3, number) for number in range(20)]
    assert drawn != [candidate(4, number) for number in range(20)]
    sizes = [max(kind.size for kind in graph.types()) for graph in drawn if graph]
    assert len(sizes) >= 15 and all(TARGET_ELEMENTS <= size <= MOST_ELEMENTS for size in sizes)


def test_a_program_that_cannot_grow_is_left_out() -> None:
    assert enlarged(Graph((Leaf("input", TensorType("float32", ())),), (), (0,))) is None
    small = drawn_graph(["tanh"], "torch", Draw(random.Random(1)), dtypes=("float32",))
    large = enlarged(small)
    assert large is not None and large.operators == small.operators


def graph_of_two() -> Graph:
    """softmax(tanh(x))"""
    nodes = (Node("tanh", (0,), (LARGE,)), Node("softmax", (1,), (LARGE,), {"axis": 1}))
    return Graph((Leaf("input", LARGE),), nodes, (2,))


def test_parts_are_the_operators_alone_on_inputs_of_their_own() -> None:
    assert [part.operators for part in parts_of(graph_of_two())] == [("tanh",), ("softmax",)]
    assert all(part.leaves[0].type == LARGE for part in parts_of(graph_of_two()))


def test_a_hunt_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    with Store.create(tmp_path) as store:
        journal = PerfJournal(store)
        with pytest.raises(DriftlineError, match="no unfinished perf hunt"):
            journal.unfinished()
        first = journal.begin(PerfPlan(("eager",), seconds=60.0))
        second = journal.begin(PerfPlan(("eager",), seconds=60.0, seed=1))
        assert (first.id, second.id) == (1, 2) and journal.unfinished() == second
        journal.keep(replace(second, number=7, seconds=50.0, counts={"slow": 1}, bugs=("eager-1",)))
        assert journal.unfinished().number == 7 and journal.unfinished(90.0).plan.seconds == 90.0
        with pytest.raises(DriftlineError, match="longer --budget"):
            journal.unfinished(40.0)
        journal.keep(replace(second, finished=True))
        assert journal.unfinished().id == 1
        (tmp_path / "perf-hunts" / "1.json").write_text("{")
        with pytest.raises(DriftlineError, match="is damaged"):
            journal.unfinished()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--targets egar", "eager"),
        ("--targets eager --against eager,plain", "one baseline"),
        ("--resume --targets eager", "leave out --targets"),
        ("--targets eager --budget 5", "with its unit"),
        ("--resume", "no unfinished perf hunt"),
    ],
)
def test_bad_options_are_one_sentence(
    arguments: str, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command(["perf", "hunt", "--store", str(tmp_path), *arguments.split()]) == 2
    said = capfd.readouterr().err
    assert told in said and "Traceback" not in said


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_shows_the_hunt_that_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with Store.create(tmp_path) as store:
        journal = PerfJournal(store)
        older = journal.begin(PerfPlan(("eager",), seconds=60.0))
        journal.keep(replace(older, counts={"slow": 3}))
        journal.keep(replace(journal.begin(PerfPlan(("eager",), seconds=60.0)), finished=True))
    monkeypatch.setattr(PerfHunt, "run", interrupted)
    assert command(["perf", "hunt", "--resume", "--store", str(tmp_path), "--json"]) == 130
    said = capfd.readouterr()
    assert json.loads(said.out)["counts"] == {"slow": 3} and "Go on with" in said.err


def test_ctrl_c_before_a_hunt_began_shows_no_other_hunt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("driftline.workbench.timing.require_target", interrupted)
    assert command(["perf", "hunt", "--targets", "eager", "--store", str(tmp_path)]) == 130
    said = capfd.readouterr()
    assert "interrupted before the hunt began" in said.err and not said.out


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_slow_operator_is_cut_out_of_its_program_and_the_hunt_is_resumed(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_plugins((PLUGIN,))
    monkeypatch.setattr("driftline.perf.hunt.candidate", lambda seed, number: graph_of_two() if number else None)
    with Store.create(tmp_path) as store:
        plan = PerfPlan(("planted-slow:factor=6:op=softmax", "planted-slow:factor=1"), seconds=800.0, programs=1)
        hunt = PerfHunt(checker, store, PerfJournal(store).begin(plan), CheckOptions(plugins=(PLUGIN,)))
        assert hunt.run().counts == {"no program": 1}
        entry = replace(hunt.entry, finished=False, plan=replace(plan, programs=3))
        found = PerfHunt(checker, store, entry, CheckOptions(plugins=(PLUGIN,))).run()
        assert found.counts == {"no program": 1, "slow": 1, "slow, found before": 1, "not slow": 2}
        assert found.number == 3
        (bug,) = store.bugs()
        assert found.bugs == (bug.id,) and bug.fingerprint.detail == "softmax of float"
    checker.pool.deadline = math.inf


def test_a_twin_that_cannot_be_made_again_ends_no_hunt(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen had one; for the confirmation there is none, as when its worker was killed."""
    options = CheckOptions()
    made = candidate_case(checker, graph_of_two(), options)
    with Store.create(tmp_path) as store:
        entry = PerfJournal(store).begin(PerfPlan(("eager",), against="layout", seconds=60.0))
        hunt = PerfHunt(checker, store, entry, options)
        monkeypatch.setattr("driftline.perf.hunt.baseline", lambda *asked: "there is no twin in another layout")
        ratio = Estimate(2.0, 1.9, 2.1)
        seen = RatioMeasured(ratio, ratio, 2e-3, 1e-3, 8)
        assert hunt._confirmed(made, Target("eager"), seen) is False


def ratio_of(low: float, high: float, seconds: float = 1e-3) -> RatioMeasured:
    middle = Estimate((low + high) / 2, low, high)
    return RatioMeasured(middle, middle, middle.value * seconds, seconds, 8)


@pytest.mark.parametrize(
    ("measured", "came"),
    [
        ([ratio_of(1.0, 1.1)], "not slow"),
        ([ratio_of(15, 17, seconds=7e-6)], "too short"),  # eager only makes a view, or returns early
        ([ratio_of(1.9, 2.1), ratio_of(1.01, 1.02), ratio_of(1.9, 2.1)], "slow"),  # the screen, the noise, once more
        ([ratio_of(1.9, 2.1), ratio_of(1.01, 1.02), ratio_of(1.4, 1.6)], "not confirmed"),
        # Calls of seconds, of which the screen made three: it does not count.
        ([replace(ratio_of(90, 99), rounds=3), ratio_of(1.01, 1.02), *[ratio_of(90, 99)] * 2], "slow"),
    ],
)
def test_a_screen_is_the_first_time_and_one_more_makes_a_finding(
    measured: list[RatioMeasured], came: str, checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(measured)
    monkeypatch.setattr("driftline.perf.hunt.candidate", lambda seed, number: tanh_of_large())
    monkeypatch.setattr(Stopwatch, "measure", lambda *sides, **effort: next(answers))
    with Store.create(tmp_path) as store:
        plan = PerfPlan(("aot_eager",), seconds=600.0, programs=1)
        found = PerfHunt(checker, store, PerfJournal(store).begin(plan), CheckOptions()).run()
    checker.pool.deadline = math.inf
    assert found.counts == {came: 1} and next(answers, None) is None


def tanh_of_large() -> Graph:
    return Graph((Leaf("input", LARGE),), (Node("tanh", (0,), (LARGE,)),), (1,))


def test_what_is_returned_as_it_came_is_left_out() -> None:
    """Eager hands an input out as it is; a compiler that copies it is not slow."""
    whole = replace(tanh_of_large(), outputs=(0, 1))
    assert only_computed(whole) == tanh_of_large() and only_computed(replace(whole, outputs=(0,))) is None
    drawn = [graph for number in range(40) if (graph := candidate(0, number))]
    parts = [part for graph in drawn for part in parts_of(graph)]
    assert parts and all(number >= len(graph.leaves) for graph in (*drawn, *parts) for number in graph.outputs)
