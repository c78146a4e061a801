"""Slow programs are reduced, ablated and bisected by the searches of wrong results, with another question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_times import know_times, planted_times

import driftline.testing
from driftline.campaign.explain.ablation import ablate_failing
from driftline.campaign.explain.diagnosis import diagnose_failing
from driftline.campaign.explain.failing import Failing, find_failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.cli import run as command
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.diagnose.ablate.ablator import ablate_case
from driftline.diagnose.reduce.reducer import DoesNotFail
from driftline.diagnose.trials import TrialWords
from driftline.measure.estimate import Estimate
from driftline.perf.check import sample_case
from driftline.perf.comparison import SLOW, Effort, RatioMeasured, Side, Stopwatch
from driftline.perf.inquiry import CostInquiry, CostTrials
from driftline.perf.question import CostAnswer, screened_slow
from driftline.perf.recording import record_slow
from driftline.perf.result import PerfRow
from driftline.report.program import program_text
from driftline.store import Store
from driftline.store.reductions import Reductions

PLUGIN = str(Path(driftline.testing.__file__).with_name("slow.py"))
OPTIONS = CheckOptions(plugins=(PLUGIN,))
EFFORT = Effort(rounds=8)
TEXT = """
import torch

def run(x):
    return torch.softmax(torch.relu(torch.tanh(x)), 1)

def make():
    torch.manual_seed(0)
    return run, (torch.randn(100, 500),)
"""


def measured(low: float, high: float, wall: float = 9.0, own: float = 3e-3) -> RatioMeasured:
    return RatioMeasured(Estimate((low * high) ** 0.5, low, high), Estimate(wall, wall, wall), own, 1e-3, 8)


@pytest.fixture(scope="module")
def case(checker: Checker) -> Case:
    load_plugins((PLUGIN,))
    return sample_case(open_source(SourceBundle("net.py", "make", {"net.py": TEXT}), checker.pool, OPTIONS), OPTIONS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store") as made:
        yield made


def slow_bug(store: Store, checker: Checker, case: Case, target: str, twin: Case | None = None) -> Failing:
    """A finding as `perf check` keeps it; what it says was measured is not measured here."""
    row = PerfRow(target, "eager", SLOW, (measured(5.5, 6.5), measured(5.6, 6.4)), 1.05)
    own = Side(case, Target.parse(target), target)
    other = Side(twin, Target.parse(target), "twin") if twin else Side(case, Target("eager"), "eager")
    bug = record_slow(store, own, other, row, 1.5)
    return find_failing(bug.id, store, checker, options=OPTIONS, costs=True)


def test_a_screen_says_slow_or_not_only_with_its_whole_interval() -> None:
    assert screened_slow(measured(1.6, 2.0), 1.5) is True
    assert screened_slow(measured(0.9, 1.4), 1.5) is False
    assert screened_slow(measured(1.4, 1.7), 1.5) is None
    assert screened_slow(measured(1.6, 2.0, own=1.05e-3), 1.5) is None  # too short
    assert screened_slow(measured(1.6, 2.0, wall=1.1), 1.5) is False  # threads that spin


@pytest.mark.parametrize(("still", "amount", "said"), [(True, 6.0, "same"), (True, 2.0, "neither"), (False, 1, "pass")])
def test_much_faster_and_still_too_slow_is_told_apart(
    still: bool, amount: float, said: str, checker: Checker, case: Case, store: Store
) -> None:
    inquiry = CostInquiry(checker, store, slow_bug(store, checker, case, "planted-slow:factor=6"))

    class Fixed:
        usual, limit, fair = 6.0, 1.5, 1.8
        message = ""

        def ask(
            self, checker: Checker, case: Case, target: Target, *, sure: bool = False, twin_on: Target | None = None
        ) -> CostAnswer:
            return CostAnswer(still, "told", amount, amount)

    words = inquiry.trials(case).words
    assert CostTrials(checker, case.only(Target("eager")), Fixed(), words).ask(Target("eager")).answer == said


@pytest.mark.parametrize(
    ("usual", "low", "high", "said"),
    [
        (352.0, 1.41, 1.45, "pass"),
        (352.0, 1.47, 1.53, "pass"),  # the limit lies within: a second look must not say something else
        (352.0, 1.55, 1.60, "pass"),
        (352.0, 1.75, 1.85, "neither"),  # much better, and still too much
        (1.6, 1.44, 1.48, "neither"),  # below the limit, and as slow as before
        (1.6, 1.55, 1.65, "same"),
        (1.6, 1.10, 1.20, "pass"),
    ],
)
def test_a_cure_near_the_limit_is_told_by_what_it_takes_away(
    usual: float, low: float, high: float, said: str, checker: Checker, case: Case, store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A first look and a confirmation say the same, on whichever side of the limit they fall."""
    target = "planted-slow:factor=6"
    row = PerfRow(target, "eager", SLOW, (measured(usual / 1.01, usual * 1.01),) * 2, 1.05)
    bug = record_slow(store, Side(case, Target.parse(target), target), Side(case, Target("eager"), "eager"), row, 1.5)
    failing = find_failing(bug.id, store, checker, options=OPTIONS, costs=True)
    monkeypatch.setattr(Stopwatch, "floor", lambda *sides: 1.05)
    monkeypatch.setattr(Stopwatch, "measure", lambda *sides, **effort: measured(low, high))
    trials = CostInquiry(checker, store, failing).trials(failing.case.only(failing.target))
    without = Target.parse(f"{target}:skip=tile")
    assert {trials.ask(without).answer, trials.ask(without, fresh=True).answer} == {said}


@pytest.mark.parametrize("clock", ["known", pytest.param("real", marks=pytest.mark.slow)])
def test_the_pass_that_makes_a_program_slow_is_found(
    clock: str, checker: Checker, case: Case, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if clock == "known":
        know_times(monkeypatch, planted_times)
    failing = slow_bug(store, checker, case, "planted-slow:factor=6")
    inquiry = CostInquiry(checker, store, failing, effort=EFFORT)
    found = ablate_failing(checker, store, failing, budget=300, inquiry=inquiry)
    (cure,) = found.ablation.cures
    assert (cure.title, cure.confirmed) == ("tile", True) and cure.sentence == "It is fast without tile."
    assert str(cure.target) == "planted-slow:factor=6:skip=tile"
    assert "--target planted-slow:factor=6:skip=tile" in found.body["cures"][0]["command"]
    answer, why = inquiry.releases(case)(checker, cure.target)
    assert answer == "good" and "noise" in why


@pytest.mark.parametrize("cures", [True, False])
def test_what_nothing_switches_off_is_asked_with_loops_made_in_another_way(
    cures: bool, checker: Checker, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inductor computes a row again for every row that it is added to, unless it is told to keep it in memory."""
    asked: list[Target] = []

    class Threshold:
        usual, limit, fair = 6.0, 1.5, 1.8
        message = ""

        def ask(
            self, checker: Checker, case: Case, target: Target, *, sure: bool = False, twin_on: Target | None = None
        ) -> CostAnswer:
            asked.append(target)
            fast = cures and dict(target.options).get("realize_opcount_threshold") == "1"
            return CostAnswer(not fast, "told", 1.0 if fast else 6.0)

    monkeypatch.setattr("driftline.diagnose.ablate.ablator._AblationRun._at_work", lambda self, target: [])
    slow = case.only(Target("inductor"))
    words = TrialWords("take too long", "is fast", "makes it fast", measured=True)
    found = ablate_case(checker, slow, CostTrials(checker, slow, Threshold(), words), budget=300)
    if cures:
        (cure,) = found.cures
        assert (str(cure.target), cure.confirmed) == ("inductor:realize_opcount_threshold=1", True)
        assert cure.sentence == "It is fast with realize_opcount_threshold=1." and len(asked) < 20
    else:
        assert not found.cures and "nothing that can be switched off makes it fast" in found.note
        assert len(dict(asked[-1].options)) > 20  # all of them at once, and no more questions


def twin_of(checker: Checker, case: Case) -> Case:
    other = open_source(
        SourceBundle("twin.py", "make", {"twin.py": TEXT.replace("torch.relu", "torch.clone")}), checker.pool, OPTIONS
    )
    return replace(case, program=other.program)


def test_a_twin_cannot_be_reduced_and_a_diagnosis_says_so(
    checker: Checker, case: Case, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = slow_bug(store, checker, case, "planted-slow:factor=6", twin_of(checker, case))
    inquiry = CostInquiry(checker, store, failing)
    with pytest.raises(DriftlineError, match="slower than a twin"):
        reduce_failing(checker, store, failing, budget=300, inquiry=inquiry)
    monkeypatch.setattr(Stopwatch, "floor", lambda *sides: 1.05)
    monkeypatch.setattr(Stopwatch, "measure", lambda *sides, **effort: measured(0.9, 1.1))
    with pytest.raises(DoesNotFail, match="does not take too long"):
        diagnose_failing(checker, store, failing, budget=300, inquiry=inquiry)
    monkeypatch.setattr(Stopwatch, "measure", lambda *sides, **effort: measured(5.5, 6.5))
    found = diagnose_failing(checker, store, failing, budget=300, inquiry=inquiry)
    assert found.reduced is None and "slower than a twin" in found.notes["reduce"]
    assert found.ablated and Reductions(store).of(failing.bug.id) is None


def test_each_finding_of_a_bug_asks_what_was_measured_of_it(checker: Checker, case: Case, store: Store) -> None:
    first = slow_bug(store, checker, case, "planted-slow:factor=6")
    second = slow_bug(
        store, checker, replace(case, samples=case.samples * 2), "planted-slow:factor=6", twin_of(checker, case)
    )
    assert first.bug.id == second.bug.id
    of_case = store.bug(first.bug.id).findings[1].case_id
    other = find_failing(of_case, store, checker, options=OPTIONS, costs=True)
    assert CostInquiry(checker, store, first).message == "over 1.5 times as long as eager"
    assert CostInquiry(checker, store, other).message != "over 1.5 times as long as eager"


@pytest.mark.parametrize(("helped", "said"), [("the twin", "same"), ("the program", "pass")])
def test_what_only_makes_the_twin_slow_is_no_cure(
    helped: str, said: str, checker: Checker, case: Case, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a pass that helps the twin alone, both take long: their ratio is one, and the program is no faster."""
    failing = slow_bug(store, checker, case, "planted-slow:factor=6", twin_of(checker, case))

    def seconds(side: Side) -> float:
        without, is_twin = "skip" in str(side.target), side.case.program.digest != case.program.digest
        slow = without if is_twin else not (without and helped == "the program")
        return 6e-3 if slow else 1e-3

    def measure(self: Stopwatch, own: Side, other: Side, **effort: Any) -> RatioMeasured:
        ratio = seconds(own) / seconds(other)
        exactly = Estimate(ratio, ratio, ratio)
        return RatioMeasured(exactly, exactly, seconds(own), seconds(other), 8)

    monkeypatch.setattr(Stopwatch, "measure", measure)
    trials = CostInquiry(checker, store, failing).trials(failing.case.only(failing.target))
    assert trials.ask(failing.target, fresh=True).answer == "same"
    without = Target.parse("planted-slow:factor=6:skip=tile")
    assert {trials.ask(without).answer, trials.ask(without, fresh=True).answer} == {said}


def test_what_is_slow_is_not_localized(
    checker: Checker, case: Case, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    name = slow_bug(store, checker, case, "planted-slow:factor=6").bug.id
    assert command(["localize", name, "--store", str(store.path), "--plugin", PLUGIN]) == 2
    said = capfd.readouterr().err
    assert "about cost" in said and f"driftline diagnose {name}" in said


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_program_is_reduced_to_the_operator_that_is_slow(checker: Checker, case: Case, store: Store) -> None:
    failing = slow_bug(store, checker, case, "planted-slow:factor=6:op=softmax")
    inquiry = CostInquiry(checker, store, failing, effort=EFFORT)
    found = reduce_failing(checker, store, failing, budget=240, inquiry=inquiry)
    assert found.reduction.before.operators == 3 and found.reduction.after.operators == 1
    assert found.reduction.smallest and "as long as eager" in found.reduction.smallest.result.verdict.reason
    assert "softmax" in found.body["program"]["text"] and found.body["verdict"]["kind"] == "slow"


@pytest.mark.parametrize(
    ("low", "high", "code", "said"), [(1.2, 1.9, 5, "does not say whether"), (1, 1.1, 0, "does not take too long")]
)
@pytest.mark.parametrize("word", ["ablate", "reduce"])
def test_a_machine_that_cannot_tell_does_not_say_that_it_is_fast(
    word: str, low: float, high: float, code: int, said: str,
    checker: Checker, case: Case, store: Store, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    name = slow_bug(store, checker, case, "planted-slow:factor=6").bug.id
    monkeypatch.setattr(Stopwatch, "measure", lambda *sides, **effort: measured(low, high))
    monkeypatch.setattr(Stopwatch, "floor", lambda *sides: 1.05)
    assert command([word, name, "--store", str(store.path), "--plugin", PLUGIN]) == code
    assert said in capfd.readouterr().err


@pytest.mark.slow
def test_what_could_not_be_measured_is_asked_again_another_time(
    checker: Checker, case: Case, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = slow_bug(store, checker, case, "planted-slow:factor=6")
    noisy = True

    def measure(self: Stopwatch, own: Side, other: Side, **effort: Any) -> RatioMeasured:
        if "skip" in str(own.target):
            return measured(0.9, 1.1)
        whole = all(name in program_text(own.case.program) for name in ("tanh", "relu", "softmax"))
        return measured(5.5, 6.5) if whole or not noisy else measured(1.2, 1.9)

    monkeypatch.setattr(Stopwatch, "measure", measure)
    monkeypatch.setattr(Stopwatch, "floor", lambda *sides: 1.05)
    inquiry = CostInquiry(checker, store, failing)
    assert reduce_failing(checker, store, failing, budget=300, inquiry=inquiry).reduction.after.operators == 3
    noisy = False
    reduction = reduce_failing(checker, store, failing, budget=300, inquiry=inquiry).reduction
    assert reduction.after.operators == 1

    smaller = reduction.case.only(failing.target)
    ablated = ablate_failing(checker, store, failing, budget=300, case=smaller, inquiry=inquiry)
    (cure,) = ablated.body["cures"]
    assert f"replay {failing.bug.id} " in cure["command"]  # which measures; the smaller case would only be checked
