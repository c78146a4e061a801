"""Replays stored bugs, to see whether they still show."""

from __future__ import annotations

from dataclasses import replace

from driftline.campaign.check.session import fingerprint
from driftline.campaign.check.stored import case_to_run
from driftline.campaign.explain.failing import require_wrong
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.result import Replay, ReplayAnswer
from driftline.core.case import Case
from driftline.core.errors import BackendUnavailable
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind, Status
from driftline.store import Bug, Store


def replay(store: Store, name: str, checker: Checker, target: Target | None = None) -> Replay:
    """Re-run the first case of a bug, on its own target or on another one, and update the bug's status."""
    bug = store.bug(name)
    require_wrong(bug)
    case = case_to_run(store, bug.findings[0].case_id)
    wanted = target or case.targets[0]
    outcome = checker.check(case.only(wanted))
    if outcome.skipped:
        raise BackendUnavailable(f"{wanted} {outcome.skipped[0].reason}. Run driftline doctor.")
    result = outcome.results[0]
    answer, reason = _compare(bug, case, result)
    if target is None:
        if answer is ReplayAnswer.FIXED:
            store.mark(bug.id, Status.FIXED)
        elif answer is ReplayAnswer.STILL_FAILS and bug.status in (Status.NEW, Status.FIXED):
            store.mark(bug.id, Status.CONFIRMED)
    return Replay(store.bug(bug.id), answer, reason, result)


def replay_case(store: Store, case_id: str, checker: Checker, target: Target | None = None) -> TargetResult:
    """Run a stored case and return its result; the case need not belong to a bug."""
    case = case_to_run(store, case_id)
    wanted = target or case.targets[0]
    outcome = checker.check(case.only(wanted))
    if outcome.skipped:
        raise BackendUnavailable(f"{wanted} {outcome.skipped[0].reason}. Run driftline doctor.")
    return outcome.results[0]


def _compare(bug: Bug, case: Case, result: TargetResult) -> tuple[ReplayAnswer, str]:
    verdict = result.verdict
    if verdict.judgement is Judgement.PASS:
        own = result.target == case.targets[0]
        return (ReplayAnswer.FIXED if own else ReplayAnswer.PASSES), verdict.reason
    if verdict.judgement is not Judgement.FAIL:
        return ReplayAnswer.DIFFERS, f"{verdict.judgement}: {verdict.reason}"
    known = bug.fingerprint
    if known.kind == Kind.REDUCED_PRECISION:  # a replay judges strictly
        result = replace(result, verdict=replace(verdict, judgement=Judgement.REDUCED))
    seen = fingerprint(case, result)
    same = (seen.stage, seen.kind, seen.detail) == (known.stage, known.kind, known.detail)
    return (ReplayAnswer.STILL_FAILS if same else ReplayAnswer.DIFFERS), verdict.reason
