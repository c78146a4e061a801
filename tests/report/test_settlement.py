"""Each failing program of a hunt is accounted for, and disputed ones are listed."""

from __future__ import annotations

from pathlib import Path

from driftline.report.gather import gather
from driftline.report.markdown import render
from driftline.report.settlement import account, listed_suspects
from driftline.store import Store
from driftline.store.hunts import HuntLog, SuspectBody, Turn, TurnBody

REQUEST = {"generator": "alone", "arm": "max_pool2d", "number": 0, "strategies": ["random"], "seed": "0"}


def test_all_failures_are_accounted_for() -> None:
    assert account({}) == ""
    assert account({"bug": 1, "disputed": 1, "unexamined": 3}) == (
        "5 programs failed: 1 shows a bug, 1 is disputed (the references disagree), 3 were not examined, for lack of"
        " time."
    )


def test_disputed_failures_are_listed_with_the_reason(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt = log.begin({"seed": 0, "targets": ["tvm"]}, {})
        body = SuspectBody(REQUEST, True, "wrong-value", "RUN", "y: 1 of 4 elements differ")
        log.add_turn(hunt, Turn("tvm", 1, TurnBody(programs=4, seconds=1.0, counts={"fail": 2, "pass": 2})), [body] * 2)
        first, second = log.waiting(hunt, "tvm")
        log.settle(first, "disputed", reason="torch and the onnx reference disagree")
        log.settle(second, "gone", reason="alone it is pass")
        (found,) = listed_suspects(log, [hunt])
    assert (found.target, found.program, found.state) == ("tvm", "max_pool2d (alone)", "disputed")
    assert found.reason == "torch and the onnx reference disagree"
    report = gather(tmp_path / "s")
    assert report.statistics and report.statistics.unsettled == (found,)
    shown = render(report)
    assert "2 programs failed: 1 is disputed (the references disagree), 1 did not fail again alone." in shown
    assert "max\\_pool2d (alone)" in shown or "max_pool2d (alone)" in shown
