"""Convert results to JSON, with the same names everywhere; docs/json.md documents them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftline.causes import Library
from driftline.core.config import default_store
from driftline.core.plugins import plugin_words
from driftline.core.quoting import shell
from driftline.report.annotated import causes_of
from driftline.report.debate import debate_of
from driftline.report.titles import title_of
from driftline.store import Bug, Store

if TYPE_CHECKING:
    from driftline.checking.checker import TargetResult
    from driftline.checking.result import CheckResult
    from driftline.report.baseline import Compared

SCHEMA = 1


def command(name: str, bug_id: str, store: Path) -> str:
    """Return the command line of a command about a bug."""
    place = [] if store == default_store() else ["--store", store]
    return shell(["driftline", *name.split(), bug_id, *place, *plugin_words()])


def replay_command(bug_id: str, store: Path) -> str:
    """Return the command line that reproduces a bug."""
    return command("replay", bug_id, store)


def go_on(command: str, seconds: float, store: Store) -> str:
    """Return the command line that resumes work whose budget ended. The budget is doubled, since it counts from the
    original start.
    """
    place = [] if store.path == default_store() else ["--store", store.path]
    budget = ["--resume", "--budget", f"{max(1, round(2 * seconds / 60))}m"]
    plugins = plugin_words() if command in ("hunt", "passes test") else []
    return shell(["driftline", *command.split(), *budget, *place, *plugins])


def examine_command(hunt: int, store: Path) -> str:
    """Return the command line that examines the remaining suspects of a hunt and reduces its remaining bugs."""
    place = [] if store == default_store() else ["--store", store]
    return shell(["driftline", "hunt", "--resume", hunt, *place, *plugin_words()])


def check_json(result: CheckResult, baseline: Compared | None = None, library: Library | None = None) -> dict[str, Any]:
    """Return the output of `check --json`; docs/json.md has the schema."""
    case = result.outcome.case
    known = baseline.known if baseline else ()
    return {
        "schema": SCHEMA,
        "program": case.runs.to_json(),
        "reference": case.program.to_json() if case.deployed else None,
        "reference_by": result.outcome.reference.by,
        "samples": [sample.origin for sample in case.samples],
        "results": [_row(row, result.bugs.get(row.target), row.target in known) for row in result.results],
        "bugs": [bug_json(bug, result.store, library) for bug in {b.id: b for b in result.bugs.values()}.values()],
        "skipped": [{"target": str(s.target), "reason": s.reason} for s in result.outcome.skipped],
        "notes": list(result.notes),
        "disagreements": [one.to_json() for one in result.disagreements],
        "store": str(result.store),
        "compared": result.compared,
        "other_size": result.outcome.other_size,
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
        "compared": [str(aspect) for aspect in row.compared],
        "taken_by": summary["taken_by"],
        "evidence": row.verdict.evidence.to_json(),
        "blame": row.blame or None,
        "failed_runs": list(row.failed_runs),
        "bug": bug.id if bug else None,
        "known": known,
        "effect": row.effect.to_json() | {"sentence": str(row.effect)} if row.effect else None,
        "durations": summary["durations"],
        "peak_memory": summary["peak_memory"],
        "version": summary["version"],
    }


def bug_json(bug: Bug, store: Path, library: Library | None = None) -> dict[str, Any]:
    """Return a stored bug as JSON, with its title, causes and the command that replays it."""
    causes = [cause.note() for cause in causes_of(bug, library)]
    told = {"title": title_of(bug), "causes": causes, "debate": debate_of(bug)}
    return {**bug.to_json(), **told, "replay": replay_command(bug.id, store)}
