"""The JSON of results: one spelling for each concept, documented in docs/json.md."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from driftline.checking.checker import TargetResult
from driftline.checking.result import CheckResult
from driftline.core.config import default_store
from driftline.report.baseline import Compared
from driftline.store import Bug, Store

SCHEMA = 1


def command(name: str, bug_id: str, store: Path) -> str:
    """A command about a bug, as it is typed."""
    place = "" if store == default_store() else f" --store {shlex.quote(str(store))}"
    return f"driftline {name} {bug_id}{place}"


def replay_command(bug_id: str, store: Path) -> str:
    """The one command that shows a bug again."""
    return command("replay", bug_id, store)


def go_on(command: str, seconds: float, store: Store) -> str:
    """The command that goes on with what a budget was too short for: budgets count from the beginning."""
    place = "" if store.path == default_store() else f" --store {shlex.quote(str(store.path))}"
    return f"driftline {command} --resume --budget {max(1, round(2 * seconds / 60))}m{place}"


def known_as(bug: Bug) -> str:
    """What is known of a bug already: a title, where it was reported if it was, and whether it is debatable."""
    known = next((told for finding in bug.findings if (told := finding.verdict.get("known"))), None)
    if not known:
        return ""
    url, note = (str(known.get(key) or "") for key in ("url", "note"))
    told = f"known: {known['title']} ({url})" if url else f"known cause: {known['title']}"
    return f"{told}. {note}" if note else told


def check_json(result: CheckResult, baseline: Compared | None = None) -> dict[str, Any]:
    case = result.outcome.case
    known = baseline.known if baseline else ()
    return {
        "schema": SCHEMA,
        "program": case.runs.to_json(),
        "reference": case.program.to_json() if case.deployed else None,
        "reference_by": result.outcome.reference.by,
        "samples": [sample.origin for sample in case.samples],
        "results": [_row(row, result.bugs.get(row.target), row.target in known) for row in result.results],
        "bugs": [bug_json(bug, result.store) for bug in {b.id: b for b in result.bugs.values()}.values()],
        "skipped": [{"target": str(s.target), "reason": s.reason} for s in result.outcome.skipped],
        "notes": list(result.notes),
        "store": str(result.store),
        "compared": result.compared,
        **({"baseline": baseline.to_json()} if baseline else {}),
    }


def _row(row: TargetResult, bug: Bug | None, known: bool) -> dict[str, Any]:
    summary = row.execution.summary()
    return {
        "target": str(row.target),
        "outcome": summary["outcome"],
        "stage": summary["stage"],
        "verdict": str(row.verdict.judgement),
        "kind": str(row.verdict.kind) if row.verdict.kind else None,
        "reason": row.verdict.reason,
        "evidence": dict(row.verdict.evidence),
        "blame": row.blame or None,
        "failed_runs": list(row.failed_runs),
        "bug": bug.id if bug else None,
        "known": known,
        "effect": row.effect.to_json() | {"sentence": str(row.effect)} if row.effect else None,
        "durations": summary["durations"],
        "peak_memory": summary["peak_memory"],
        "version": summary["version"],
    }


def bug_json(bug: Bug, store: Path) -> dict[str, Any]:
    return {**bug.to_json(), "replay": replay_command(bug.id, store)}
