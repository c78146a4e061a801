"""At the end of its time a hunt keeps what was judged of the turns in hand; interrupted before, it does them again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from test_lane import judged, make_lane

from driftline.campaign.hunt.crew import LocalCrew
from driftline.campaign.hunt.hunter import Hunter
from driftline.campaign.hunt.lane import Lane
from driftline.campaign.hunt.pipeline import Pipeline
from driftline.campaign.hunt.plan import HuntPlan
from driftline.campaign.hunt.result import HuntResult
from driftline.campaign.hunt.roster import Roster
from driftline.campaign.orders import TurnOrder
from driftline.checking.batch import Screened
from driftline.core.target import Target
from driftline.events import Event, TurnDone
from driftline.execute.pool import Pool, PoolInterrupted
from driftline.store import Store
from driftline.store.hunts import HuntLog

SECONDS = 1000.0


class Halting(LocalCrew):
    """Turns are told apart by their size. The time is over when the second is in hand. The first is not begun by then,
    of the second, half is judged, and nothing of the others."""

    def __init__(self, pool: Pool, store: Store) -> None:
        super().__init__(pool, store, 2)
        self._over = threading.Event()
        self.end_time: Callable[[], None] = lambda: None

    def begin(self, lanes: Sequence[tuple[Target, str]], plugins: Sequence[str], going: Callable[[], bool]) -> None: ...

    def interrupt(self) -> None:
        self._over.set()

    def screen(self, order: TurnOrder) -> list[Screened]:
        second = len(order.requests) == 8
        if second:
            self.end_time()
        self._over.wait()
        if second:
            return [judged(request, "pass") for request in order.requests[:4]]
        raise PoolInterrupted("nothing was done")


def made_ready(pool: Pool, store: Store, heard: list[Event]) -> tuple[Hunter, Lane]:
    plan = HuntPlan(("onnxruntime",), ("graph",), seconds=SECONDS)
    lane, crew = make_lane(), Halting(pool, store)
    hunter = Hunter(pool, store, plan, listener=heard.append, crew=crew)

    def end_time() -> None:
        hunter._started -= 2 * SECONDS

    crew.end_time = end_time
    hunter._lanes, hunter._pipelines = {lane.name: lane}, {lane.name: Pipeline(lane)}
    hunter._hunt = HuntLog(store).begin(plan.to_json(), {})
    hunter._result = HuntResult(hunter._hunt)
    hunter._started = time.monotonic()
    waiting = [(hunter._pipelines[lane.name], 0, 0)]
    hunter._roster = Roster(waiting, jobs=2, time_left=hunter._time_left, in_order=False)
    return hunter, lane


def test_what_was_judged_when_the_time_is_over_is_kept(tmp_path: Path) -> None:
    heard: list[Event] = []
    with Pool() as pool, Store.create(tmp_path / "store") as store:
        hunter, lane = made_ready(pool, store, heard)
        hunter._work()
        turns = list(HuntLog(store).turns(hunter._hunt))
    done = [(turn.number, turn.body.programs) for turn in turns]
    assert done == [(0, 0), (1, 4)], "of the first turn nothing was done, of the second four of eight programs"
    assert [turn.body.cut for turn in turns] == [True, True]
    assert lane.programs == 4, "with more time, the others are asked for again"
    assert [sum(event.counts.values()) for event in heard if isinstance(event, TurnDone)] == [4]


def test_a_turn_that_is_interrupted_before_is_not_written(tmp_path: Path) -> None:
    with Pool() as pool, Store.create(tmp_path / "store") as store:
        hunter, lane = made_ready(pool, store, [])
        hunter._crew.interrupt()
        first, second = (hunter._pipelines[lane.name].ask(0, 100) for _ in range(2))
        for asked in (first, second):
            assert asked
            with pytest.raises(PoolInterrupted):
                hunter._carried_out(lane, asked, 1)
