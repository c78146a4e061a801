"""What a hunt brought, for the terminal and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from driftline.causes import Library
from driftline.core.config import default_store
from driftline.core.quoting import shell
from driftline.core.sentences import called
from driftline.report.annotated import causes_of
from driftline.report.gather import gather_store
from driftline.report.model_use import HEAD, model_cells, model_json, model_use, wasted
from driftline.report.results import go_on, replay_command
from driftline.report.screen import Screen
from driftline.report.tested import slowest_of
from driftline.report.view import ACCEPTED, OPEN, REDUCED, BugView
from driftline.report.worded_table import WordedTable
from driftline.report.words import duration, plural
from driftline.store import Store
from driftline.store.hunts import HuntLog

if TYPE_CHECKING:
    from driftline.campaign.hunt import HuntResult

MOST_ROWS = 40
PROGRAM_LINES = 24


def hunt_json(result: HuntResult, store: Store, library: Library | None = None) -> dict[str, Any]:
    """The answer of `hunt --json`; schema in docs/json.md."""
    sightings = HuntLog(store).sightings(result.hunt)
    return {
        "schema": 1,
        "hunt": result.hunt.id,
        "seed": result.hunt.plan["seed"],
        "shard": result.hunt.plan.get("shard", ""),
        "seconds": round(result.hunt.seconds, 1),
        "programs": result.programs,
        "suspects": result.settled,
        "stopped": result.stopped,
        "judged": result.judged,
        "no_more": result.no_more,
        "slowest": [asdict(slow) for slow in slowest_of(HuntLog(store).turns(result.hunt))],
        "models": [model_json(use) for use in model_use(HuntLog(store), [result.hunt])],
        "bugs": [
            {
                "id": bug.id,
                "new": bug.id in result.new,
                "status": str(bug.status),
                "sightings": sightings.get(bug.id, 0),
                "fingerprint": bug.fingerprint.to_json(),
                "summary": bug.summary,
                "causes": [cause.note() for cause in causes_of(bug, library)],
                "replay": replay_command(bug.id, store.path),
            }
            for bug in result.bugs.values()
        ],
        "store": str(store.path),
    }


def show_hunt(result: HuntResult, store: Store, report: Path | None = None, library: Library | None = None) -> None:
    """What was found, the worst first; the clearest one in full; and what to do next."""
    out = Screen(width=None if sys.stdout.isatty() else 150, highlight=False, soft_wrap=False)
    programs = sum(result.programs.values())
    tested = f"{plural(programs, 'program')} on {plural(len(result.programs), 'compiler')}"
    out.print(f"\n{tested} in {duration(result.hunt.seconds)}.")
    _show_models(out, result, store)
    for lane, reason in result.stopped.items():
        out.print(f"{lane} stopped early: {escape(reason)}")
    if not result.bugs:
        _show_unexamined(out, result, store)
        out.print(
            "No bug was found. A longer --budget or another --seed looks elsewhere."
            if result.judged
            else "Nothing was compared: no program came to a verdict. Give it more time, or other --targets."
        )
        return
    bugs = [bug for bug in gather_store(store, library).bugs if bug.id in result.bugs]
    compilers = {bug.compiler for bug in bugs}
    reduced = sum(bug.group == REDUCED for bug in bugs)
    wrong = len(bugs) - reduced
    found = f"[bold]{plural(wrong, 'distinct bug')}[/] in {plural(len(compilers), 'compiler')}"
    found += f", and {plural(reduced, 'result')} of less precision" if reduced else ""
    reported = sum(any(cause.reported for cause in bug.causes) for bug in bugs)
    causes = {bug.causes[0].id: bug.causes[0] for bug in bugs if bug.causes}
    found += ", each run again in a fresh process"
    out.print(
        f"{found} ({reported} of them with a cause that is reported upstream; {len(result.new)} not in this store"
        " before).\n"
    )
    table = WordedTable(("bug", "what is wrong", "seen", "status"), words="what is wrong", right=("seen",))
    shown = bugs[:MOST_ROWS]
    for bug in (bug for bug in shown if not bug.causes):
        table.add(bug.id, escape(_short(bug.title)), str(bug.sightings), bug.status)
    for cause in causes.values():
        together = [bug for bug in shown if bug.causes and bug.causes[0].id == cause.id]
        if together:
            table.add("", f"[bold]cause: {escape(_short(cause.title))}[/] ({escape(cause.id)})", "", "")
        for bug in together:
            status = "accepted" if bug.group == ACCEPTED else bug.status
            table.add(bug.id, escape(_short(bug.title)), str(bug.sightings), status)
    table.print(out)
    if len(bugs) > MOST_ROWS:
        out.print(f"... and {len(bugs) - MOST_ROWS} more: driftline bugs list")
    _show_unexamined(out, result, store)
    _show_clearest(out, bugs)
    place = f" --store {shell([store.path])}" if store.path != default_store() else ""
    out.print(f"\nReport:  {report or f'driftline report{place} --out report.html'}", soft_wrap=True)


def _show_models(out: Console, result: HuntResult, store: Store) -> None:
    """What language models were asked, and what came of it."""
    uses = model_use(HuntLog(store), [result.hunt])
    if not uses:
        return
    table = Table(box=None, pad_edge=False)
    for title in HEAD:
        table.add_column(title, justify="left" if title in ("model", "mode") else "right")
    for use in uses:
        table.add_row(*map(escape, model_cells(use)))
    out.print(table)
    if said := wasted(uses):
        out.print(f"Answers that were no programs: {said}.")
    for what, reason in result.no_more.items():
        out.print(f"{what} stopped: {escape(reason)}.")
    out.print()


def _show_unexamined(out: Console, result: HuntResult, store: Store) -> None:
    if accepted := result.settled.get("accepted", 0):
        verb = "is" if accepted == 1 else "are"
        out.print(f"\n{plural(accepted, 'failing program')} {verb} less precise, as accepted; no bug was recorded.")
    unexamined = result.settled.get("unexamined", 0)
    if unexamined:
        out.print(f"\n{plural(unexamined, 'further failing program')} not examined: the time was spent.")
        out.print(f"Go on:   {go_on('hunt', result.hunt.seconds, store)}", soft_wrap=True)


def _show_clearest(out: Console, bugs: Sequence[BugView]) -> None:
    """One bug that can be understood at a glance: open, not debatable, of the worst kind, with few numbers."""
    clear = min(
        bugs,
        key=lambda bug: (
            bug.group != OPEN,
            any(cause.debatable for cause in bug.causes),
            bug.severity,
            len(bug.script),
        ),
    )
    out.print(f"\n[bold]The clearest one[/]: {escape(clear.title)}\n")
    lines = [line for line in clear.script.splitlines() if line.strip()]
    for line in lines[:PROGRAM_LINES]:
        out.print(f"    {escape(line[:130])}", style="cyan")
    if len(lines) > PROGRAM_LINES:
        out.print(f"    ... ({len(lines) - PROGRAM_LINES} more lines in the report)", style="dim")
    if clear.mismatch and clear.mismatch.places:
        worst = clear.mismatch.places[0]
        told = f"{called(clear.mismatch.output)} at {worst.index}: expected {worst.expected}, got {worst.got}"
        out.print(f"\n  {escape(told)}")
    else:
        out.print(f"\n  {escape(clear.reason[:300])}")
    out.print(f"\nRun it again:  {clear.replay}", soft_wrap=True)


def _short(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
