"""Show hunts among schedules in the terminal and as JSON."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from driftline.core.config import default_store
from driftline.core.evidence import Evidence
from driftline.core.execution import Stage
from driftline.core.quoting import shell
from driftline.report import words
from driftline.report.results import SCHEMA, bug_json
from driftline.schedules.functions import FUNCTIONS
from driftline.schedules.hunt import RIGHT, ScheduleHuntResult
from driftline.schedules.known import DEFECTS, ScheduleDefect, defect_of
from driftline.schedules.naming import sentence
from driftline.schedules.preconditions import NEVER_BROKEN, PRECONDITIONS
from driftline.schedules.primitives import NOT_DRAWN, PRIMITIVES
from driftline.schedules.recording import trace_of
from driftline.schedules.requests import Performed
from driftline.store import Bug, Store
from driftline.store.store import sound_bugs


def show_schedule_hunt(result: ScheduleHuntResult, store: Store) -> None:
    """Print the counts of a hunt among schedules, then its bugs."""
    rate = 60 * result.schedules / max(result.seconds, 1e-9)
    took = words.duration(result.seconds)
    click.echo(f"{result.schedules:,} schedules in {took} ({rate:.0f} a minute), {result.steps:,} steps taken.")
    others = ", ".join(f"{count} {kind}" for kind, count in result.outcomes.most_common() if kind != RIGHT)
    none = "no failure was settled" if result.unsettled else "no failure"
    click.echo(f"{result.outcomes[RIGHT]:,} compute what the unscheduled function does; {others or none}.")
    if result.unconfirmed:
        click.echo(f"{words.plural(result.unconfirmed, 'failure')} did not come back in a fresh process; no finding.")
    if result.unsettled:
        click.echo(f"{words.plural(result.unsettled, 'failure')} of cut-off batches not examined: run it for longer.")
    bugs = _bugs(result, store)
    if not bugs:
        click.echo("No bug was settled." if result.unsettled else "No bug was found.")
        return
    click.echo(f"\n{words.plural(len(bugs), 'bug')}:")
    for bug in bugs:
        click.echo(f"  {bug.id}  {max(1, result.sightings[bug.id]):4d}x  {bug.summary[:170]}")
        if defect := _defect(bug, store):
            click.echo(f"      known: {defect.title}")
    place = [] if store.path == default_store() else ["--store", store.path]
    click.echo(f"\nAs a script: {shell(['driftline', 'schedules', 'export', bugs[0].id, *place])}")


def _bugs(result: ScheduleHuntResult, store: Store) -> list[Bug]:
    """Return the bugs of the hunt, most sightings first."""
    return list(sound_bugs(store, sorted(result.bugs, key=lambda name: (-result.sightings[name], name))))


def _defect(bug: Bug, store: Store) -> ScheduleDefect | None:
    """Return the known defect of TVM that explains a bug, or None."""
    finding = bug.findings[0]
    message = Evidence.from_json(finding.verdict["evidence"]).message
    return defect_of(trace_of(store.load_case(finding.case_id)), bug.fingerprint.kind, bug.fingerprint.stage, message)


def schedule_hunt_json(result: ScheduleHuntResult, store: Store) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "seconds": round(result.seconds, 1),
        "schedules": result.schedules,
        "outcomes": dict(result.outcomes),
        "steps": result.steps,
        "refused": result.refused,
        "unconfirmed": result.unconfirmed,
        "unsettled": result.unsettled,
        "functions": dict(result.functions),
        "primitives": dict(result.primitives),
        "bugs": [
            {
                **bug_json(bug, store.path),
                "sightings": result.sightings[bug.id],
                "defect": defect.name if (defect := _defect(bug, store)) else None,
            }
            for bug in _bugs(result, store)
        ],
    }


def listing() -> dict[str, Any]:
    """Return the functions, primitives, known defects and preconditions of hunts among schedules, as JSON."""
    return {
        "schema": SCHEMA,
        "functions": [{"name": one.name, "kind": one.kind, "sizes": list(one.sizes)} for one in FUNCTIONS],
        "primitives": list(PRIMITIVES),
        "not_drawn": NOT_DRAWN,
        "defects": [{"name": one.name, "title": one.title, "kind": one.kind, "seen": one.seen} for one in DEFECTS],
        "preconditions": [
            *({"primitives": list(one.primitives), "duty": one.duty, "source": one.source} for one in PRECONDITIONS),
            *({"primitives": [name], "duty": duty, "source": source} for name, duty, source in NEVER_BROKEN),
        ],
    }


def show_listing() -> None:
    """Print the functions, primitives, known defects and preconditions of hunts among schedules."""
    told = listing()
    click.echo("Functions:")
    for one in told["functions"]:
        click.echo(f"  {one['name']:18} {one['kind']} ({', '.join(one['sizes'])})")
    click.echo("\nPrimitives:")
    click.echo(textwrap.fill(", ".join(told["primitives"]), 100, initial_indent="  ", subsequent_indent="  "))
    click.echo("\nNot drawn:")
    for name, why in told["not_drawn"].items():
        click.echo(f"  {name}: {why}")
    click.echo("\nKnown defects of TVM:")
    for one in told["defects"]:
        click.echo(f"  {one['name']}: {one['title']} ({one['kind']})")
    click.echo("\nLeft to the caller, so breaking it is no finding:")
    for one in told["preconditions"]:
        click.echo(f"  {', '.join(one['primitives'])}: {one['duty']} ({one['source']})")


def performed_json(found: Performed) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "answer": "fails" if found.fails else "refused" if found.refused else "passes",
        "reason": reason(found),
        "kind": found.kind or None,
        "stage": found.stage,
        "trace": found.trace.to_json(),
    }


def reason(found: Performed) -> str:
    if found.refused:
        return f"TVM does not take {found.refused}" if found.stage == Stage.SCHEDULE else found.refused
    return sentence(found) if found.fails else "computes what the unscheduled function does"
