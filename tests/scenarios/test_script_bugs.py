"""Failing scripts as bugs of a store: recorded, replayed, shown, explained and exported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import driftline
from driftline.campaign.check.scripts import ScriptSettings, check_script_file
from driftline.campaign.check.stored import case_to_run
from driftline.campaign.explain.explanations import explain_bugs
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.scripts import ScriptLadder, ScriptRung, export_failing
from driftline.checking.checker import Checker
from driftline.checking.result import ReplayAnswer
from driftline.core.errors import DriftlineError
from driftline.core.program import SCRIPT
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind, Status
from driftline.execute.pool import Pool
from driftline.report import html, markdown
from driftline.report.gather import gather_store, in_full
from driftline.report.scenario import script_json
from driftline.scenarios.check import ScriptCheck
from driftline.scenarios.difference import Change, Difference
from driftline.scenarios.identity import fingerprint, stage_of, title_of_difference
from driftline.scenarios.judge import ScriptResult
from driftline.scenarios.keeping import is_script_bug, script_of
from driftline.scenarios.recording import CALL, Raised
from driftline.scenarios.replay import replay_script
from driftline.scenarios.requests import OWN_BACKEND
from driftline.scenarios.script import UserScript
from driftline.scenarios.target import AS_IT_STANDS, BACKEND_NAMES, DYNAMO_ALONE, backend_at_fault
from driftline.store import Bug, Store

# Its own backend drops an exception, which the script prints.
SWALLOWS = """\
import torch


def without_errors(graph, example):
    def run(*inputs):
        try:
            return graph(*inputs)
        except IndexError:
            return (torch.zeros(2),)

    return run


@torch.compile(backend=without_errors)
def pick(x, i):
    return x[i]


try:
    pick(torch.ones(3, 2), torch.tensor([7]))
    print("no error")
except IndexError:
    print("error")
"""
# A generator that a compiled function returns is another object: a bug of Dynamo in torch 2.13.
GENERATOR = """\
import torch


@torch.compile(backend="aot_eager")
def chunks(x):
    def produce():
        for i in range(3):
            yield x[i] * 10

    return produce()


print(type(chunks(torch.arange(3.0))).__name__)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.create(tmp_path_factory.mktemp("scripts") / "store")


@pytest.fixture(scope="module")
def found(store: Store, pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> ScriptCheck:
    path = tmp_path_factory.mktemp("user") / "swallows.py"
    path.write_text(SWALLOWS)
    return check_script_file(pool, store, path, ScriptSettings(timeout=120.0))


@pytest.fixture
def bug(found: ScriptCheck) -> Bug:
    return found.bugs[AS_IT_STANDS]


def test_check_says_what_was_found(found: ScriptCheck) -> None:
    assert (found.failed, found.compared) == (True, True)
    assert repr(found).startswith("<ScriptCheck swallows.py: as-it-stands: fail; bugs: script-backend-")
    told = script_json(found)
    assert told["results"][0]["bug"] == told["bugs"][0]["id"] == found.bugs[AS_IT_STANDS].id
    assert told["results"][0]["backends"] == [OWN_BACKEND]


def test_failure_is_kept_with_the_text_of_the_script(store: Store, bug: Bug) -> None:
    case = store.load_case(bug.findings[0].case_id)
    assert (case.program.form, case.program.framework, case.samples) == (SCRIPT, "torch", ())
    assert case.program.path.read_text() == SWALLOWS
    assert bug.findings[0].target == AS_IT_STANDS
    assert (bug.fingerprint.kind, bug.fingerprint.stage) == (Kind.MISSING_ERROR, "RUN")
    assert bug.findings[0].verdict["differences"][0]["kind"] == "missing-error"


def test_replay_runs_the_script_again(store: Store, pool: Pool, bug: Bug) -> None:
    again = replay_script(store, bug, pool)
    assert (again.answer, again.bug.status) == (ReplayAnswer.STILL_FAILS, Status.CONFIRMED)
    elsewhere = replay_script(store, bug, pool, Target(DYNAMO_ALONE))
    assert (elsewhere.answer, elsewhere.bug.status) == (ReplayAnswer.PASSES, Status.CONFIRMED)


def test_stored_script_is_the_users_file_while_that_is_unchanged(found: ScriptCheck, store: Store, pool: Pool) -> None:
    case = store.load_case(found.bugs[AS_IT_STANDS].findings[0].case_id)
    assert script_of(case, pool).path == found.script.path
    moved = replace(case, program=replace(case.program, origin="/dev/null", name="../../up.py"))
    copy = script_of(moved, pool)
    assert (copy.name, copy.text) == ("script.py", SWALLOWS)
    assert copy.path.parent.parent == pool.workspace.job_folder().parent


def test_report_shows_text_and_differences(store: Store, bug: Bug) -> None:
    view = in_full(store, bug.id)
    assert view.script == SWALLOWS
    assert view.title.startswith("after the first call of pick, eager raises IndexError")
    assert len(view.differences) == len(bug.findings[0].verdict["differences"])
    report = gather_store(store)
    for text in (markdown.render(report), html.render(report)):
        assert "without_errors" in text and "the compiled function returns a value" in text


def test_damaged_differences_are_a_gap(store: Store, bug: Bug) -> None:
    finding = bug.findings[0]
    verdict = {**finding.verdict, "differences": [{"id": 3}]}
    row = [finding.case_id, finding.target, json.dumps(verdict), json.dumps(finding.execution), finding.created]
    gaps = len(store.gaps)
    assert store.sound_finding(bug.id, row) is None
    assert len(store.gaps) == gaps + 1 and "differences" in store.gaps.pop()


def test_other_commands_refuse_the_case(store: Store, checker: Checker, bug: Bug) -> None:
    assert is_script_bug(store, bug)
    with pytest.raises(DriftlineError, match=r"is a script that calls torch\.compile itself"):
        case_to_run(store, bug.findings[0].case_id)
    with pytest.raises(DriftlineError, match=r"tvm: a script that calls torch\.compile runs on as-it-stands"):
        find_failing(bug.id, store, checker, target=Target("tvm"), scripts=True)


@pytest.mark.slow
def test_exported_script_compares_by_itself(store: Store, checker: Checker, bug: Bug) -> None:
    failing = find_failing(bug.id, store, checker, scripts=True)
    made = export_failing(failing, checker.pool, "script")
    assert made.valid, made.reason
    assert "exit status 1; without the compiler it ends with 0" in made.reason
    assert made.text.endswith(SWALLOWS) and "BUG:" in made.output


@pytest.mark.slow
def test_exported_issue_says_what_each_side_does(store: Store, checker: Checker, bug: Bug) -> None:
    made = export_failing(find_failing(bug.id, store, checker, scripts=True), checker.pool, "issue")
    assert "| | eager | compiled |" in made.text
    assert "IndexError" in made.text and "\ntorch 2." in made.text


def test_exported_test_fails_while_the_bug_is_there(
    store: Store, checker: Checker, bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = export_failing(find_failing(bug.id, store, checker, scripts=True), checker.pool, "pytest")
    assert made.valid, made.reason
    names: dict[str, object] = {}
    exec(made.text, names)
    monkeypatch.setattr("driftline.api._checker", checker)
    (test,) = (one for name, one in names.items() if name.startswith("test_"))
    with pytest.raises(AssertionError, match="eager raises IndexError"):
        test(tmp_path)  # type: ignore[operator]
    names["SCRIPT"] = SWALLOWS.replace("backend=without_errors", 'backend="eager"')
    test(tmp_path)  # type: ignore[operator]


def test_first_stage_that_differs_is_blamed(checker: Checker, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "generator.py"
    path.write_text(GENERATOR)
    made = check_script_file(checker.pool, store, path, ScriptSettings(timeout=120.0))
    (bug,) = made.bugs.values()
    assert bug.id.startswith("aot_eager-")
    (told,) = explain_bugs(checker, store, [bug.id], budget=300.0).bodies  # as `check SCRIPT --diagnose` does
    assert [rung["target"] for rung in told["ladder"]["rungs"]] == [DYNAMO_ALONE]
    assert told["summary"] == ["dynamo:eager is the first that differs. To blame is Dynamo, which captures the graphs."]
    explanation = in_full(store, bug.id).explanation
    assert explanation is not None and explanation.sentences == tuple(told["summary"])


def test_ladder_says_which_stages_are_right() -> None:
    right = [ScriptRung(name, ReplayAnswer.PASSES, "") for name in BACKEND_NAMES]
    wrong = ScriptRung("inductor", ReplayAnswer.STILL_FAILS, "")
    (told,) = ScriptLadder(AS_IT_STANDS, (*right[:3], wrong)).sentences()
    assert told.startswith(
        "inductor is the first that differs; dynamo:eager, aot_eager, aot_eager_decomp do what eager"
    )
    (told,) = ScriptLadder(AS_IT_STANDS, tuple(right)).sentences()
    assert told.endswith("To blame is the script's own backend, mode or options.")


def _result(text: str, one: Difference, backends: tuple[str, ...] = ("inductor",)) -> ScriptResult:
    script = UserScript(Path("repro.py"), text)
    return ScriptResult(script, AS_IT_STANDS, Judgement.FAIL, one.sentence, (one,), backends=backends)


GROWS = "import torch\n\nclass History(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x) + 1\n"
SIZE = Difference(Change.SIZE, 1, CALL, "after the second call of History", "self.history", "2", "1 element")


def test_names_numbers_and_comments_do_not_make_another_bug() -> None:
    one = fingerprint(_result(GROWS, SIZE))
    renamed = replace(SIZE, event=4, when="then", path="self.seen[3]", expected="9", got="8 elements")
    assert fingerprint(_result("# of yesterday\n" + GROWS.replace("History", "Seen"), renamed)) == one
    assert "history" not in str(one) and "1 element" not in str(one)
    others = [replace(SIZE, change=Change.CONTENTS), replace(SIZE, path="output"), replace(SIZE, path="self.x.grad")]
    assert len({fingerprint(_result(GROWS, other)) for other in others} | {one}) == 4
    assert fingerprint(_result(GROWS.replace("relu", "sin"), SIZE)) != one


def test_script_without_named_operators_is_known_by_its_code() -> None:
    one = fingerprint(_result("import torch\nprint(1)\n", SIZE))
    assert fingerprint(_result("import torch\n\n# so\nprint(1)  # one\n", SIZE)) == one
    assert fingerprint(_result("import torch\nprint(2)\n", SIZE)) != one


@pytest.mark.parametrize(
    "given, backend",
    [
        ((), "inductor"),
        (("inductor",), "inductor"),
        (("eager",), DYNAMO_ALONE),
        (("aot_eager_decomp_partition",), "aot_eager_decomp"),
        (("cudagraphs", OWN_BACKEND), "dynamo:cudagraphs+script-backend"),
    ],
)
def test_backend_at_fault_is_the_one_that_the_script_names(given: tuple[str, ...], backend: str) -> None:
    assert backend_at_fault(Target(AS_IT_STANDS), given) == backend
    assert backend_at_fault(Target("aot_eager"), given) == "aot_eager"


def test_exception_of_the_compiler_is_at_the_stage_of_compiling() -> None:
    raised = Raised("BackendCompilerFailed", ("BackendCompilerFailed",), "no", by_compiler=True)
    one = Difference(Change.ERROR, 0, CALL, "after the first call of f", got=str(raised), raised=raised)
    assert stage_of(one) == "COMPILE"
    assert stage_of(replace(one, raised=replace(raised, by_compiler=False))) == "RUN"
    assert fingerprint(_result(GROWS, one)).detail.startswith("error BackendCompilerFailed, call in ")


def test_title_is_made_from_the_difference() -> None:
    assert title_of_difference(SIZE) == "after the second call of History, self.history has 1 element, eager has 2"


@pytest.mark.parametrize("targets", [["tvm"], ["inductor:freezing=true"], []])
def test_targets_that_mean_nothing_are_refused_before_anything_runs(targets: list[str], tmp_path: Path) -> None:
    with pytest.raises(DriftlineError):
        driftline.check_script(tmp_path / "no.py", targets=targets, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()
