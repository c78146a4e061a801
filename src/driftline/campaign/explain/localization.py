"""Localisation of a stored bug: suspects become stored cases, and the result is stored with the bug."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from driftline.campaign.check.session import verdict_json
from driftline.campaign.explain.budget import cut_at_end
from driftline.campaign.explain.failing import Failing, require_one_program
from driftline.checking.checker import Checker
from driftline.core.case import Case
from driftline.core.verdict import Status
from driftline.diagnose.localize.localizer import localize_case
from driftline.diagnose.localize.result import Localization, SuspectPart
from driftline.diagnose.reduce.question import Votes
from driftline.diagnose.reduce.signature import Signature
from driftline.events import Listener, ignore, says
from driftline.report.program import program_text
from driftline.report.results import replay_command
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses

STEP = "localize"


@dataclass(frozen=True)
class Localized:
    """A localisation and the JSON that is stored for it."""

    failing: Failing
    localization: Localization
    body: dict[str, Any]


def localize_failing(
    checker: Checker,
    store: Store,
    failing: Failing,
    *,
    budget: float,
    listener: Listener = ignore,
) -> Localized:
    """Localise a failure within a budget of seconds, and store the result with its bug."""
    require_one_program(failing.case, "localize")
    with cut_at_end(checker.pool, budget, STEP):
        found = localize_case(
            checker,
            failing_sample(failing),
            Signature.of_finding(failing.finding.verdict, failing.finding.execution),
            budget=budget,
            votes=votes_for(failing),
            listener=says(listener, "localize"),
        )
    body = _body(store, failing, found)
    Diagnoses(store).save(failing.bug.id, STEP, body)
    return Localized(failing, found, body)


def votes_for(failing: Failing) -> Votes:
    """Return how often a failure is run: several times if it is flaky."""
    failed, runs = failing.finding.verdict.get("failed_runs") or (0, 0)
    return Votes.for_rate(failed, runs) if failing.bug.status is Status.FLAKY else Votes()


def failing_sample(failing: Failing) -> Case:
    """Return the case with only the input sample that is known to fail, or the whole case if that is unknown."""
    index = failing.finding.evidence.sample
    samples = failing.case.samples
    if index is None or not 0 <= index < len(samples):
        return failing.case
    return replace(failing.case, samples=(samples[index],))


def _body(store: Store, failing: Failing, found: Localization) -> dict[str, Any]:
    """Return the JSON form that is stored, shown and printed; docs/json.md describes it."""
    return {
        "bug": failing.bug.id,
        "of_case": failing.finding.case_id,
        "target": str(failing.target),
        "ladder": [rung.to_json() for rung in found.rungs],
        "first_wrong": str(found.target),
        "form": found.form,
        "operators": found.operators,
        "suspects": [_suspect(store, suspect) for suspect in found.suspects],
        "lone": found.lone,
        "explained": found.explained,
        "observer": found.observer,
        "note": found.note,
        "queries": found.queries,
        "seconds": round(found.seconds, 2),
    }


def _suspect(store: Store, suspect: SuspectPart) -> dict[str, Any]:
    case_id = store.save_case(suspect.case)
    return {
        "title": suspect.title,
        "operators": [operator.to_json() for operator in suspect.operators],
        "alike": suspect.alike,
        "case": case_id,
        "target": str(suspect.result.target),
        "text": program_text(suspect.case.program),
        "verdict": verdict_json(suspect.result),
        "rest": suspect.rest,
        "command": replay_command(case_id, store.path),
    }
