"""What fails at the end of a hunt, an audit or a diagnosis is told, and the rest of the summary is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import onnx
import pytest

from driftline.campaign.check.session import check_program
from driftline.campaign.explain import diagnosis
from driftline.campaign.explain.explanations import explain_bugs
from driftline.campaign.hunt.crew import LocalCrew
from driftline.campaign.hunt.hunter import Hunter
from driftline.campaign.hunt.lane import Lane
from driftline.campaign.hunt.plan import HuntPlan
from driftline.campaign.hunt.result import HuntResult
from driftline.campaign.triage.examination import ExaminedSuspect
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.wire import encode
from driftline.events import ignore
from driftline.execute.pool import Pool
from driftline.patterns.audit import Audit, AuditPlan
from driftline.patterns.onnx_audit import OnnxAudit
from driftline.report.hunts import hunt_json
from driftline.store import Store
from driftline.store.hunts import HuntLog, Suspect, SuspectBody, Turn, TurnBody
from driftline.testing import planted

PLUGIN = str(Path(planted.__file__).resolve())


def fail(*_: object, **__: object) -> NoReturn:
    raise KeyError("12")


class FailingToMatch(LocalCrew):
    def match(self, *_: object) -> Iterator[tuple[Suspect, ExaminedSuspect]]:
        fail()


def test_hunt_whose_matching_fails_leaves_its_suspects_unexamined(pool: Pool, tmp_path: Path) -> None:
    plan = HuntPlan(("onnxruntime",), ("graph",), seconds=100.0)
    lane = Lane(Target("onnxruntime"), "onnx", 0, 10, {"graph": ["abs"]}, {}, ("random",))
    with Store.create(tmp_path / "store") as store:
        log = HuntLog(store)
        hunter = Hunter(pool, store, plan, listener=ignore, crew=FailingToMatch(pool, store, 1))
        hunter._lanes = {lane.name: lane}
        hunter._hunt = log.begin(plan.to_json(), {})
        hunter._result = HuntResult(hunter._hunt)
        body = SuspectBody(
            encode(ProgramRequest, ProgramRequest("graph", "abs", 1, ("random",), seed="1")),
            True,
            "wrong-value",
            "RUN",
            "off",
        )
        log.add_turn(hunter._hunt, Turn(lane.name, 0, TurnBody(programs=1)), [body])
        hunter._started = 0.0
        hunter._match_waiting()
        log.leave_unexamined(hunter._hunt)
        result = hunter._summed_up(hunter._hunt)
        told = hunt_json(result, store)
    assert told["suspects"] == {"unexamined": 1}
    assert [step["error"] for step in told["failed_steps"]] == ["KeyError: '12'"]
    assert "in fail" in told["failed_steps"][0]["details"]


def test_audit_of_which_one_compiler_fails_is_shown_and_can_be_resumed(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OnnxAudit, "run", fail)
    with Store.create(tmp_path / "store") as store:
        plan = AuditPlan(("onnxruntime",), "ConstantFolding", 30.0)
        audit = Audit(checker, store, plan)
        (step,) = audit.run().failed_steps
        assert step.sentence.startswith("auditing onnxruntime failed: KeyError: '12'")
        assert not audit._entry.finished and not audit._memory.kept("ended"), "it is tried again"


def test_diagnosis_of_which_every_step_fails_says_so(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_plugins([PLUGIN])
    for step in ("localize_failing", "reduce_failing", "ablate_failing"):
        monkeypatch.setattr(diagnosis, step, fail)
    text = '<ir_version: 8, opset_import: ["": 18]> g (float[4] x) => (float[4] y) { y = Abs (x) }'
    onnx.save(onnx.parser.parse_model(text), str(tmp_path / "abs.onnx"))
    options = CheckOptions(plugins=(PLUGIN,))
    with Store.create(tmp_path / "store") as store:
        opened = open_program(str(tmp_path / "abs.onnx"), checker.pool, options)
        target = Target.parse("planted-wrong-on:op=Abs")
        checked = check_program(checker, store, opened, targets=[target], options=options)
        found = explain_bugs(checker, store, [bug.id for bug in checked.bugs.values()], budget=900.0)
    (body,) = found.bodies
    assert body["notes"] == dict.fromkeys(("localize", "reduce", "ablate"), "failed: KeyError: '12'")
    assert len(found.failed_steps) == 3 and json.dumps(body)
