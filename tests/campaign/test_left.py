"""What a hunt leaves for want of time is listed, and comes first when the hunt is resumed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from test_hunt import PLUGIN

from driftline.campaign.hunt.crew import LocalCrew
from driftline.campaign.hunt.hunter import Hunter
from driftline.campaign.hunt.plan import HuntPlan
from driftline.campaign.orders import SuspectOrder, TurnOrder
from driftline.campaign.triage.examination import ExaminedSuspect
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.plugins import load_plugins
from driftline.core.wire import encode
from driftline.events import ignore
from driftline.execute.pool import Pool
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.report.formats import render
from driftline.report.gather import gather_store
from driftline.store import Store
from driftline.store.hunts import Hunt, HuntLog, SuspectBody, Turn, TurnBody
from driftline.store.reductions import Reductions
from typed import typed

ROW = TensorType("float32", (4,))
PLAN = HuntPlan(("wrong-abs",), ("few",), seed=3, seconds=60.0, plugins=(PLUGIN,))


def suspect(operator: str, severity: int, *, new: bool = True) -> SuspectBody:
    graph = Graph((Leaf("input", ROW),), (Node(operator, (0,), (ROW,)),), (1,))
    request = ProgramRequest("few", operator, 1, ("random",), seed="1", graph=graph)
    kind = "crash" if operator == "sign" else "wrong-value"
    asked = encode(ProgramRequest, request)
    return SuspectBody(asked, new, kind, "RUN", f"{operator} is off", severity=severity, origin="random")


def ended_hunt(store: Store) -> Hunt:
    """A hunt whose time is over. Its last turn was cut short, and two of its suspects were not examined."""
    log = HuntLog(store)
    hunt = log.begin(PLAN.to_json(), {})
    bodies = [suspect("sign", 1), suspect("abs", 0, new=False)]
    log.add_turn(hunt, Turn("wrong-abs", 0, TurnBody(programs=4, counts={"pass": 2, "fail": 2}, cut=True)), bodies)
    log.leave_unexamined(hunt)
    log.spend(hunt, PLAN.seconds)
    log.finish(hunt)
    return log.hunt(hunt.id)


def test_resume_examines_what_was_left_though_the_time_is_over(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        ended_hunt(store)
    place = ("--json", "--store", str(tmp_path / "s"))
    done = typed("hunt", "--resume", "1", "--plugin", PLUGIN, *place)
    answer = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert sorted(bug["fingerprint"]["kind"] for bug in answer["bugs"]) == ["crash", "wrong-value"]
    assert answer["unexamined"] == [] and answer["programs"] == {"wrong-abs": 4}, "there is no new program"
    assert answer["not_reduced"] == {} and answer["go_on"] == "", "what was found is reduced, too"
    with Store.open(tmp_path / "s") as store:
        assert all(Reductions(store).of(bug["id"]) for bug in answer["bugs"])
    again = typed("hunt", "--resume", "--plugin", PLUGIN, *place)
    assert again.returncode == 2 and "no unfinished hunt" in again.stderr


class Noting(LocalCrew):
    """Writes down what it is asked for. When it is asked for a turn, the time is over."""

    end_time: Callable[[], None]

    def __init__(self, pool: Pool, store: Store) -> None:
        super().__init__(pool, store, 1)
        self.asked: list[str] = []

    def screen(self, order: TurnOrder) -> list[Screened]:
        self.asked.append("a turn")
        self.end_time()
        return super().screen(order)

    def examine(self, order: SuspectOrder) -> ExaminedSuspect:
        self.asked.append(order.request.arm)
        return super().examine(order)


def test_more_time_goes_to_what_was_left_before_new_programs(pool: Pool, tmp_path: Path) -> None:
    load_plugins([PLUGIN])
    with Store.create(tmp_path / "s") as store:
        hunt = ended_hunt(store)
        HuntLog(store).reopen(hunt)
        crew = Noting(pool, store)
        hunter = Hunter(pool, store, replace(PLAN, seconds=1000.0), listener=ignore, crew=crew)

        def end_time() -> None:
            hunter._started -= 2000.0

        crew.end_time = end_time
        hunter.run(HuntLog(store).hunt(hunt.id))
    assert crew.asked[:3] == ["abs", "sign", "a turn"], "the worst first, though it looked known"


def test_what_is_left_is_listed_with_the_command_that_examines_it(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        hunt = ended_hunt(store)
        HuntLog(store).reopen(hunt)
        report = render(gather_store(store), "md")
    command = f"driftline hunt --resume {hunt.id} --store {shlex.quote(str(tmp_path / 's'))}"
    assert command in report
    assert report.index("wrong-value of few:abs#1 on random inputs") < report.index("crash of few:sign#1")


@pytest.mark.parametrize("by_turn", [False, True])
def test_suspects_are_examined_in_the_order_of_what_they_mean(tmp_path: Path, by_turn: bool) -> None:
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin({"seed": 0}, {})
        log.add_turn(hunt, Turn("lane", 0, TurnBody(programs=4)), [suspect("exp", 6), suspect("sin", 2)])
        log.add_turn(hunt, Turn("lane", 1, TurnBody(programs=4)), [suspect("tan", 5), suspect("abs", 0)])
        order = [one.body.request["arm"] for one in log.waiting(hunt, "lane", by_turn=by_turn)]
    expected = ["sin", "exp", "abs", "tan"] if by_turn else ["abs", "sin", "tan", "exp"]
    assert order == expected, "in a hunt by numbers, nothing may depend on when a turn is done"
