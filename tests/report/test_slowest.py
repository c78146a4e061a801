"""A hunt says which programs took longest, and in which step: those hold up the others of their turns."""

from __future__ import annotations

from pathlib import Path

from driftline.campaign.hunt.result import hunt_so_far
from driftline.report.gather import gather
from driftline.report.html import render
from driftline.report.hunts import hunt_json
from driftline.report.markdown import render as render_markdown
from driftline.store import Store
from driftline.store.hunts import HuntLog, SlowProgram, Turn, TurnBody


def test_the_slowest_come_first_in_every_format(tmp_path: Path) -> None:
    slow = [SlowProgram(float(seconds), "judge", "graph", "convtranspose", seconds, "pass") for seconds in (3, 58, 7)]
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin({"seed": 0, "targets": ["tvm"]}, {})
        for number, one in enumerate(slow):
            log.add_turn(hunt, Turn("tvm", number, TurnBody(4, 60.0, {"pass": 4}, slowest=(one,))), ())
        log.finish(hunt)
        told = hunt_json(hunt_so_far(store, hunt), store)["slowest"]
    assert [row["seconds"] for row in told] == [58, 7, 3]
    assert told[0]["program"] == "graph:convtranspose#58" and told[0]["step"] == "judge" and told[0]["target"] == "tvm"
    report = gather(tmp_path / "s")
    for text in (render(report), render_markdown(report)):
        assert "Programs that took longest" in text
        assert text.index("convtranspose#58") < text.index("convtranspose#7") < text.index("convtranspose#3")
