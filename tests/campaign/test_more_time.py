"""A hunt that is resumed with another limit judges what the old one cut off: it ends as if it had never had that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_hunt import PLUGIN, command, resumption

from driftline.campaign.hunt.crew import LocalCrew
from driftline.campaign.hunt.hunter import Hunter
from driftline.campaign.hunt.lane import Lane
from driftline.campaign.hunt.plan import HuntPlan, resumed_plan
from driftline.campaign.hunt.result import HuntResult, hunt_so_far
from driftline.campaign.orders import TurnOrder
from driftline.checking.batch import Screened
from driftline.cli import run
from driftline.core.plugins import load_plugins
from driftline.events import ignore
from driftline.execute.pool import Pool
from driftline.store import Store
from driftline.store.hunts import Hunt, HuntLog, SuspectBody, Turn, TurnBody

SECONDS = 1000.0
PROGRAMS = 36  # turns of 4, 8, 15 and 9
PLAN = HuntPlan(("wrong-abs",), ("few", "mutate"), seed=3, seconds=0.0, programs=PROGRAMS, plugins=(PLUGIN,))


class Cutting(LocalCrew):
    """The time is over when it takes the turn of so many programs, before it begins or after half of it."""

    def __init__(self, pool: Pool, store: Store, size: int, half: bool) -> None:
        super().__init__(pool, store, 2)
        self._size, self._half = size, half
        self.end_time: Callable[[], None] = lambda: None

    def screen(self, order: TurnOrder) -> list[Screened]:
        if len(order.requests) != self._size:
            return super().screen(order)
        done = super().screen(order)[: self._size // 2] if self._half else []
        self.end_time()
        return done


def hunted(store: Path) -> dict[str, Any]:
    """The programs and what became of them, in their order, and the bugs."""
    with Store.open(store) as opened:
        log = HuntLog(opened)
        (hunt,) = log.hunts()
        turns = [(turn.number, replace(turn.body, seconds=0.0, slowest=())) for turn in log.turns(hunt)]
        return {"turns": turns, "bugs": sorted(bug.id for bug in opened.bugs()), "settled": log.settled(hunt)}


def hunt(
    store: Store, plan: HuntPlan, *, resume: Hunt | None = None, cut: tuple[int, bool] = (-1, False)
) -> HuntResult:
    with Pool() as pool:
        crew = Cutting(pool, store, *cut)
        hunter = Hunter(pool, store, plan, listener=ignore, crew=crew)

        def end_time() -> None:
            hunter._cut = True
            hunter._started -= 2 * SECONDS

        crew.end_time = end_time
        return hunter.run(resume)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    load_plugins([PLUGIN])
    path = tmp_path_factory.mktemp("more") / "store"
    with Store.create(path) as store:
        hunt(store, PLAN)
    return hunted(path)


@pytest.mark.parametrize(
    "half",
    [pytest.param(False, id="before a turn", marks=pytest.mark.slow), pytest.param(True, id="within a turn")],
)
def test_more_time_judges_what_was_dropped(uninterrupted: dict[str, Any], tmp_path: Path, half: bool) -> None:
    with Store.create(tmp_path / "s") as store:
        first = hunt(store, replace(PLAN, programs=0, seconds=SECONDS), cut=(15, half))
        assert first.hunt.finished and sum(first.programs.values()) < PROGRAMS
        cut = [turn for turn in HuntLog(store).turns(first.hunt) if turn.body.cut]
        assert bool(cut) == half, "of the turn, half was judged" if half else "nothing was"
        HuntLog(store).reopen(first.hunt)
        hunt(store, PLAN, resume=HuntLog(store).hunt(first.hunt.id))
    again = hunted(tmp_path / "s")
    assert again["turns"] == uninterrupted["turns"]
    assert again["bugs"] == uninterrupted["bugs"]
    assert sum(again["settled"].values()) == sum(uninterrupted["settled"].values()), "no suspect is there twice"


@pytest.mark.slow
def test_more_programs_are_those_of_a_hunt_that_had_them_from_the_start(
    uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    store = tmp_path / "s"
    fewer = [word if word != str(PROGRAMS) else "20" for word in command(store)]
    assert subprocess.run(fewer, capture_output=True, timeout=300).returncode == 1
    assert len(hunted(store)["turns"]) < len(uninterrupted["turns"])
    more = subprocess.run(
        [*resumption(store), "--programs", str(PROGRAMS)], capture_output=True, text=True, timeout=300
    )
    assert more.returncode == 1, more.stderr
    assert json.loads(more.stdout)["programs"] == {"wrong-abs": PROGRAMS}
    assert hunted(store) == uninterrupted


def test_a_turn_that_is_done_again_keeps_what_was_found_out(tmp_path: Path) -> None:
    bodies = [SuspectBody({"arm": arm, "number": 1}, True, "wrong-value", "RUN", "off") for arm in ("abs", "exp")]
    later = [replace(body, request={**body.request, "number": 2}) for body in bodies]
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin({"seed": 0}, {})
        log.add_turn(hunt, Turn("lane", 0, TurnBody(programs=4)), bodies[:1])
        log.add_turn(hunt, Turn("lane", 1, TurnBody(programs=2, cut=True)), bodies)
        log.add_turn(hunt, Turn("lane", 2, TurnBody(programs=8)), later)
        log.add_turn(hunt, Turn("other", 0, TurnBody(programs=4)), ())
        settled = next(one for one in log.waiting(hunt, "lane") if one.turn == 1 and one.body.request["arm"] == "abs")
        log.settle(settled, "gone", reason="it passes alone")
        assert log.set_limit(hunt, {"seed": 0}) == 2
        again = [(turn.lane, turn.number) for turn in log.turns(hunt) if turn.body.again]
        assert again == [("lane", 1), ("lane", 2)]
        assert sum(turn.body.programs for turn in log.turns(hunt)) == 18, "they count until they are done again"
        kept = {"waiting": 1, "gone": 1, "unexamined": 3}
        assert log.settled(hunt) == kept, "should the turns not be done again, nothing that they found is lost"
        log.add_turn(hunt, Turn("lane", 1, TurnBody(programs=8)), bodies)
        assert log.settled(hunt) == {"waiting": 2, "gone": 1, "unexamined": 2}, "what is settled does not wait again"
        assert [turn.number for turn in log.turns(hunt) if turn.body.again] == [2]
        log.add_turn(hunt, Turn("lane", 1, TurnBody(programs=9)), bodies)
        assert [turn.body.programs for turn in log.turns(hunt)] == [4, 8, 8, 4], "one that was done again stays"
        log.add_turn(hunt, Turn("lane", 2, TurnBody(programs=8)), later)
        assert log.settled(hunt) == {"waiting": 4, "gone": 1}, "nothing is there twice"


def test_of_a_turn_the_small_suspects_are_examined_first(tmp_path: Path) -> None:
    body = SuspectBody({"arm": ""}, True, "wrong-value", "RUN", "off")
    sizes = [(9, True), (1, False), (2, True)]
    suspects = [replace(body, request={"arm": str(at)}, operators=n, new=new) for at, (n, new) in enumerate(sizes)]
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin({"seed": 0}, {})
        for turn in (0, 1):
            log.add_turn(hunt, Turn("lane", turn, TurnBody(programs=4)), suspects)
        waiting = [(one.turn, one.body.request["arm"]) for one in log.waiting(hunt, "lane", by_turn=True)]
        assert waiting == [(turn, arm) for turn in (0, 1) for arm in "201"]


def test_a_suspect_that_moves_to_an_earlier_turn_is_not_there_twice(tmp_path: Path) -> None:
    """A turn that is done in full asks for programs that a later one had when it was cut."""
    body = SuspectBody({"arm": "abs", "number": 5}, True, "wrong-value", "RUN", "off")
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin({"seed": 0}, {})
        log.add_turn(hunt, Turn("lane", 0, TurnBody(programs=2, cut=True)), ())
        log.add_turn(hunt, Turn("lane", 1, TurnBody(programs=2, cut=True)), [body])
        (suspect,) = log.waiting(hunt, "lane")
        log.settle(suspect, "bug", ["abcd1234"])
        log.set_limit(hunt, {"seed": 0})
        log.add_turn(hunt, Turn("lane", 0, TurnBody(programs=8)), [body])
        assert log.settled(hunt) == {"bug": 1} and log.sightings(hunt) == {"abcd1234": 1}


def test_a_lane_that_gets_no_further_turn_keeps_those_that_it_has(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin({"seed": 0}, {})
        for lane in ("full", "short"):
            log.add_turn(hunt, Turn(lane, 0, TurnBody(programs=20 if lane == "full" else 4, cut=True)), ())
        assert log.set_limit(hunt, {"seed": 0}, programs=20) == 1
        assert [turn.lane for turn in log.turns(hunt) if not turn.body.again] == ["full"]


def test_turns_beyond_the_new_limit_are_forgotten_when_the_lane_has_reached_it(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin({"seed": 0}, {})
        for number in range(4):
            log.add_turn(hunt, Turn("lane", number, TurnBody(programs=4, cut=number > 0)), ())
        log.set_limit(hunt, {"seed": 0}, programs=20)
        log.add_turn(hunt, Turn("lane", 1, TurnBody(programs=8)), ())
        log.add_turn(hunt, Turn("lane", 2, TurnBody(programs=8)), ())
        log.end_lane(hunt, "lane", turns=3)
        assert [turn.body.programs for turn in log.turns(hunt)] == [4, 8, 8]


def test_turns_that_a_lane_does_not_do_again_are_forgotten_when_nothing_is_left_to_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one job nobody asks for a further turn when the last one has brought the lane to its end."""
    monkeypatch.setattr(Lane, "exhausted", property(lambda lane: lane.programs >= 12))
    load_plugins([PLUGIN])
    limited = replace(PLAN, programs=10)  # turns of 4 and 6
    with Store.create(tmp_path / "s") as store, Pool() as pool:
        first = hunt(store, limited)
        log = HuntLog(store)
        log.add_turn(first.hunt, Turn("wrong-abs", 2, TurnBody(programs=4, cut=True)), ())
        log.reopen(first.hunt)
        plan = replace(limited, programs=30)
        again = Hunter(pool, store, plan, listener=ignore, crew=LocalCrew(pool, store, 1)).run(log.hunt(first.hunt.id))
        assert [turn.body.programs for turn in log.turns(first.hunt)] == [4, 8]
        assert again.programs == {"wrong-abs": 12}


class Dying(LocalCrew):
    """The process is killed when it takes a turn of so many programs."""

    size = 15

    def screen(self, order: TurnOrder) -> list[Screened]:
        if len(order.requests) == self.size:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().screen(order)


def go_on_and_die(path: str) -> None:
    """In a process of its own: give a hunt another limit, and die before the first turn is done again."""
    load_plugins([PLUGIN])
    with Store.create(Path(path)) as store, Pool() as pool:
        (ended,) = HuntLog(store).hunts()
        HuntLog(store).reopen(ended)
        Hunter(pool, store, PLAN, listener=ignore, crew=Dying(pool, store, 2)).run(HuntLog(store).hunt(ended.id))


@pytest.mark.slow  # what a kill leaves is in every run of test_hunt.py, and what more time does above
def test_killed_before_a_turn_is_done_again_nothing_is_lost(uninterrupted: dict[str, Any], tmp_path: Path) -> None:
    """The new limit is kept: the hunt is resumed under it without being told again, and does no turn a third time."""
    with Store.create(tmp_path / "s") as store:
        first = hunt(store, replace(PLAN, programs=0, seconds=SECONDS), cut=(15, True))
    died = subprocess.run(
        [sys.executable, "-c", f"import test_more_time; test_more_time.go_on_and_die({str(tmp_path / 's')!r})"],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # its own folder, and what helps all tests
        capture_output=True,
        timeout=300,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    with Store.open(tmp_path / "s") as store:
        killed = hunt_so_far(store, HuntLog(store).hunt(first.hunt.id))
        assert killed.programs == first.programs and killed.judged == first.judged
        assert sum(killed.settled.values()) == sum(first.settled.values())
    with Store.create(tmp_path / "s") as store:
        going, plan = resumed_plan(store)
        assert plan == PLAN
        hunt(store, plan, resume=going)
    again = hunted(tmp_path / "s")
    assert again["turns"] == uninterrupted["turns"] and again["bugs"] == uninterrupted["bugs"]
    assert sum(again["settled"].values()) == sum(uninterrupted["settled"].values())


@pytest.mark.slow
def test_a_limit_that_was_given_once_is_not_given_again(tmp_path: Path) -> None:
    """Each resumption did the last turn again that the raised limit had cut, since it counted as another limit."""
    load_plugins([PLUGIN])
    with Store.create(tmp_path / "s") as store:
        first = hunt(store, replace(PLAN, programs=20))
        cut = [turn.number for turn in HuntLog(store).turns(first.hunt) if turn.body.cut]
        assert cut, "the limit cuts the last turn"
        HuntLog(store).reopen(first.hunt)
        more = hunt(store, replace(PLAN, programs=24), resume=HuntLog(store).hunt(first.hunt.id))
        assert HuntPlan.from_json(HuntLog(store).hunt(first.hunt.id).plan).programs == 24
        assert more.programs == {"wrong-abs": 24}
        written = hunted(tmp_path / "s")["turns"]
        assert any(body.cut for _, body in written)
        HuntLog(store).reopen(first.hunt)
        orders: list[TurnOrder] = []

        class Noting(LocalCrew):
            def screen(self, order: TurnOrder) -> list[Screened]:
                orders.append(order)
                return super().screen(order)

        with Pool() as pool:
            crew = Noting(pool, store, 2)
            going = HuntLog(store).hunt(first.hunt.id)
            Hunter(pool, store, replace(PLAN, programs=24), listener=ignore, crew=crew).run(going)
        assert not orders and hunted(tmp_path / "s")["turns"] == written


def test_a_hunt_whose_time_is_over_is_brought_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It said that it took 257 s where 60 s were asked: it had been given more time once, and was killed then."""
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        plan = HuntPlan(("onnxruntime",), ("graph",), seconds=60.0)
        killed = log.begin(plan.to_json(), {})
        log.add_turn(killed, Turn("onnxruntime", 0, TurnBody(programs=4, counts={"pass": 4})), (), 257.0)
    assert run(["hunt", "--resume", "--store", str(tmp_path / "s")]) == 0
    said = capsys.readouterr()
    assert "not resumed, its time is over: it has run for 257 s of 60 s; give it more with --budget" in said.err
    assert "4 programs on 1 compiler" in said.out
    with Store.open(tmp_path / "s") as store:
        assert not HuntLog(store).unfinished()
