"""What a hunt brought, for the terminal and as JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from driftline.report.results import replay_command
from driftline.store import Store
from driftline.store.hunts import HuntLog

if TYPE_CHECKING:
    from driftline.campaign.hunt import HuntResult


def hunt_json(result: HuntResult, store: Store) -> dict[str, Any]:
    """The answer of `hunt --json`; schema in docs/json.md."""
    sightings = HuntLog(store).sightings(result.hunt)
    return {
        "schema": 1,
        "hunt": result.hunt.id,
        "seed": result.hunt.plan["seed"],
        "seconds": round(result.hunt.seconds, 1),
        "programs": result.programs,
        "suspects": result.settled,
        "stopped": result.stopped,
        "bugs": [
            {
                "id": bug.id,
                "new": bug.id in result.new,
                "status": str(bug.status),
                "sightings": sightings.get(bug.id, 0),
                "fingerprint": bug.fingerprint.to_json(),
                "summary": bug.summary,
                "replay": replay_command(bug.id, store.path),
            }
            for bug in result.bugs.values()
        ],
        "store": str(store.path),
    }


def show_hunt(result: HuntResult, store: Store) -> None:
    """A table of what was found, the loudest first, and what to do next."""
    out = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    programs = sum(result.programs.values())
    minutes = result.hunt.seconds / 60
    out.print(f"\n{programs} programs on {len(result.programs)} compilers in {minutes:.1f} minutes.")
    if not result.bugs:
        out.print("No bug was found. A longer --budget or another --seed looks elsewhere.")
        return
    sightings = HuntLog(store).sightings(result.hunt)
    compilers = {bug.fingerprint.backend for bug in result.bugs.values()}
    out.print(
        f"[bold]{len(result.bugs)} distinct bugs[/] in {len(compilers)} compilers"
        f" ({len(result.new)} of them new to this store), each confirmed in a fresh process.\n"
    )
    table = Table(box=None, pad_edge=False)
    for title in ("bug", "kind", "smallest failing program, or message", "seen", "status"):
        table.add_column(title, overflow="fold", justify="right" if title == "seen" else "left")
    order = sorted(result.bugs.values(), key=lambda bug: (bug.fingerprint.backend, bug.fingerprint.kind, bug.id))
    for bug in order:
        detail = bug.fingerprint.detail
        detail = detail if len(detail) < 110 else detail[:109] + "…"
        table.add_row(
            bug.id, bug.fingerprint.kind, _plain(detail), str(max(1, sightings.get(bug.id, 0))), str(bug.status)
        )
    out.print(table)
    unexamined = result.settled.get("unexamined", 0)
    if unexamined:
        out.print(f"\n{unexamined} further failing programs were not examined: the time was spent.")
    out.print(f"\nRun one of them again:  {replay_command(order[0].id, store.path)}")
    out.print(f"Look at all of them:    driftline report --store {store.path} --out report.html", soft_wrap=True)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
