"""The curve of bugs over programs: lanes side by side, hunts one after another, each bug where it was seen first."""

from __future__ import annotations

import re
from pathlib import Path

from driftline.report.gather import gather
from driftline.report.growth import GrowthOf, draw_growth, ticks
from driftline.report.html import render
from driftline.store import Store
from driftline.store.hunts import HuntLog, SuspectBody, Turn, TurnBody


def test_lanes_are_side_by_side_and_hunts_one_after_another() -> None:
    growth = GrowthOf()
    # A quick lane has done half of its work when a slow one has done half of its own.
    turns = [("quick", 0, 100), ("quick", 1, 100), ("slow", 0, 5), ("slow", 1, 5)]
    growth.add(turns, {("quick", 1): ["a"], ("slow", 0): ["b"], ("slow", 1): ["a", "c"]})
    growth.add([("quick", 0, 10)], {("quick", 0): ["a", "d"]})
    assert growth.points() == ((105, ("b",)), (205, ("a",)), (210, ("c",)), (220, ("d",)))
    assert growth.ends() == (210, 220)


def test_the_axes_have_round_numbers() -> None:
    assert [ticks(most) for most in (1, 5, 7, 31, 3242)] == [
        [1],
        [1, 2, 3, 4, 5],
        [2, 4, 6],
        [10, 20, 30],
        [1000, 2000, 3000],
    ]


def test_the_page_shows_it(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin({"seed": 0, "targets": ["tvm"]}, {})
        for number in range(3):
            body = SuspectBody({"arm": str(number)}, True, "error", "RUN", "x")
            log.add_turn(hunt, Turn("tvm", number, TurnBody(10, 1.0, {"fail": 10})), [body])
            log.settle(log.waiting(hunt, "tvm", new=True, most=1)[0], "bug", [f"tvm-{min(number, 1)}"])
        log.finish(hunt)
    report = gather(tmp_path / "s")
    assert report.statistics and report.statistics.growth == ((10, ("tvm-0",)), (20, ("tvm-1",)))
    drawn = draw_growth(report.statistics, report.bugs)
    assert len(re.findall(r'<path class="(own|fine)"', drawn)) == 2 and "30 programs" in drawn
    assert "Bugs over programs" in render(report)
