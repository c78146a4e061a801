"""`driftline.open`: what the command line does, from Python, on ONNX Runtime."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "report"))

from filled_store import add_bug

import driftline
from driftline.campaign.explain.diagnosis import Diagnosis
from driftline.checking.result import ReplayAnswer
from driftline.core.verdict import Judgement, Kind
from driftline.events import (
    BugSeen,
    CheckStarted,
    Event,
    HuntStarted,
    ReleaseAsked,
    Shrunk,
    TargetDone,
    TurnDone,
)
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses
from driftline.store.reductions import Reductions

ROOT = Path(__file__).resolve().parents[1]
CLIP = f"{ROOT}/examples/bugs/onnxruntime_relu_clip_float64.py:program"


def test_from_a_check_to_a_report(store_folder: Path, tmp_path: Path) -> None:
    with driftline.open(store_folder) as bench:
        heard: list[Event] = []
        result = bench.check(CLIP, targets=["onnxruntime", "onnxruntime:opt=off"], listener=heard.append)
        assert heard[0] == CheckStarted(tuple(row.target for row in result.results))
        assert {event.target for event in heard if isinstance(event, TargetDone)} == {*heard[0].targets}
        assert [row.verdict.judgement for row in result.results] == [Judgement.FAIL, Judgement.PASS]
        (bug,) = bench.bugs()
        assert bug.id in {found.id for found in result.bugs.values()}
        assert [(event.bug.id, event.new) for event in heard if isinstance(event, BugSeen)] == [(bug.id, True)]

        explained = bench.diagnose(bug.id, seconds=900)
        assert isinstance(explained, Diagnosis)
        assert explained.failing.bug.id == bug.id
        assert explained.ablated and explained.ablated.body["cures"], "it passes without optimisations"

        again = bench.replay(bug.id)
        assert (again.answer, again.target) == (ReplayAnswer.STILL_FAILS, "onnxruntime")
        assert bench.replay(bug.id, target="onnxruntime:opt=off").answer is ReplayAnswer.PASSES
        case = again.bug.findings[0].case_id
        assert bench.replay_case(case, target="onnxruntime:opt=off").verdict.judgement is Judgement.PASS

        report = bench.report(tmp_path / "report.html")
        assert [shown.id for shown in report.bugs] == [bug.id]
        assert bug.id in (tmp_path / "report.html").read_text()
    with driftline.open(store_folder) as reopened:
        assert [known.id for known in reopened.bugs()] == [bug.id]


def test_stores_of_several_machines_become_one(tmp_path: Path) -> None:
    for name, op in (("one", "tanh"), ("two", "relu"), ("three", "exp")):
        with Store.create(tmp_path / name) as store:
            add_bug(store, Kind.CRASH, compiler="iree", op=op)
    place = str(tmp_path / "place")
    with driftline.open(tmp_path / "one") as bench:
        assert bench.merge(tmp_path / "two").added["bugs"] == 1
        assert len(bench.bugs()) == 2, "the store is open again after the merge"
        bench.push(place)
    with driftline.open(tmp_path / "three") as bench:
        with pytest.raises(driftline.DriftlineError, match="limit"):
            bench.pull(place, limit=1)
        assert bench.pull(place).merged.added["bugs"] == 2
        assert len(bench.bugs()) == 3
        with pytest.raises(driftline.DriftlineError, match="merged into itself"):
            bench.merge(tmp_path / "three")
        assert len(bench.bugs()) == 3, "also after a merge that failed"


def test_a_failure_is_localised_reduced_ablated_and_bisected(store_folder: Path) -> None:
    with driftline.open(store_folder) as bench:
        failing = bench.failing(CLIP, target="onnxruntime")  # checked once for all four
        (bug,) = bench.bugs()
        assert failing.bug.id == bug.id

        found = bench.localize(failing, seconds=900)
        assert [rung.answer for rung in found.localization.rungs][-1] == "same", "the ladder ends where it is wrong"
        heard: list[Event] = []
        reduced = bench.reduce(bug.id, seconds=900, listener=heard.append).reduction
        assert reduced.ended == "1-minimal" and reduced.after < reduced.before
        sizes = [event.size for event in heard if isinstance(event, Shrunk)]
        assert sizes[-1] == str(reduced.after)
        cures = bench.ablate(failing, seconds=900).ablation.cures
        assert cures and all("onnxruntime" in str(cure.target) for cure in cures)
        asked: list[Event] = []
        bisected = bench.bisect(failing, installed=True, listener=asked.append)
        here = ReleaseAsked(bisected.trials[0].release, "bad", bisected.trials[0].seconds)
        assert here in asked and bisected.search.ranges
        kept = {step for step in ("localize", "ablate", "bisect") if Diagnoses(bench.store).of(bug.id, step)}
        assert kept == {"localize", "ablate", "bisect"}


def test_a_hunt_and_what_it_leaves_in_the_store(store_folder: Path) -> None:
    with driftline.open(store_folder) as bench:
        heard: list[Event] = []
        found = bench.hunt(programs=64, targets=["onnxruntime"], generators=["graph"], seed=3, listener=heard.append)
        assert isinstance(heard[0], HuntStarted) and heard[0].targets == ("onnxruntime",)
        assert heard[0].spent > 0, "the start is part of the budget, so what is shown as left must be without it"
        assert sum(sum(event.counts.values()) for event in heard if isinstance(event, TurnDone)) == 64
        assert {event.bug.id for event in heard if isinstance(event, BugSeen)} == set(found.bugs)
        assert found.programs == {"onnxruntime": 64}
        assert found.judged > 0 and not found.internal_errors
        assert {bug.id for bug in bench.bugs()} == set(found.bugs)
        assert set(found.not_reduced) == set(found.bugs), "a hunt by numbers reduces when it is resumed"
        for name in found.not_reduced:
            Reductions(bench.store).save(name, {"ended": "by hand"})
        with pytest.raises(driftline.DriftlineError, match="no unfinished hunt"):
            bench.hunt(resume=True)


def test_an_audit_of_one_rule(store_folder: Path) -> None:
    with driftline.open(store_folder) as bench:
        done = bench.audit(seconds=8, compilers=["onnxruntime"], only="FuseReluClip")
        ((rule,),) = (one.rules for one in done.compilers.values())
        assert rule.rule.name == "FuseReluClip" and not done.internal_errors


def test_what_cannot_be_is_said_in_one_sentence(store_folder: Path) -> None:
    with driftline.open(store_folder) as bench:
        with pytest.raises(driftline.DriftlineError, match="Unknown backend 'onnxruntimes'"):
            bench.hunt(targets=["onnxruntimes"])
        with pytest.raises(driftline.DriftlineError, match="not both"):
            bench.hunt(seconds=5, programs=5)
        with pytest.raises(driftline.DriftlineError, match="cannot be listed"):
            bench.audit(compilers=["eager"])
        with pytest.raises(driftline.DriftlineError, match="no bug"):
            bench.diagnose("inductor-00000000")
        with pytest.raises(driftline.DriftlineError, match="does not fail"):
            bench.reduce(CLIP, target="onnxruntime:opt=off")
        with pytest.raises(driftline.DriftlineError, match="no format"):
            bench.report(format="pdf")
