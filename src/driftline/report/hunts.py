"""Show the result of a hunt in the terminal and as JSON."""

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
from driftline.core.closing import closing_step
from driftline.core.config import default_store
from driftline.core.quoting import shell
from driftline.core.sentences import called
from driftline.report.annotated import causes_of
from driftline.report.clearest import clearest
from driftline.report.debate import debate_of
from driftline.report.gather import gather_store
from driftline.report.kinship import in_order
from driftline.report.model_use import HEAD, model_cells, model_json, model_use, wasted
from driftline.report.results import examine_command, replay_command
from driftline.report.screen import Screen
from driftline.report.settlement import account, listed_suspects
from driftline.report.tested import slowest_of
from driftline.report.titles import title_of
from driftline.report.view import ACCEPTED, REDUCED, BugView
from driftline.report.worded_table import WRONG, WordedTable
from driftline.report.words import duration, plural
from driftline.store import Store
from driftline.store.hunts import HuntLog

if TYPE_CHECKING:
    from driftline.campaign.hunt.result import HuntResult

MOST_ROWS = 40
PROGRAM_LINES = 24
MOST_LEFT = 10  # suspects that are listed, and bugs
SCALAR = "[]"  # the index of the one element of a scalar
NO_TIME = "no time was left"  # why a bug is not reduced, where the hunt will do so when it is resumed


def hunt_json(result: HuntResult, store: Store, library: Library | None = None) -> dict[str, Any]:
    """Return the output of `hunt --json`; docs/json.md has the schema."""
    sightings = HuntLog(store).sightings(result.hunt)
    return {
        "schema": 1,
        "hunt": result.hunt.id,
        "seed": result.hunt.plan["seed"],
        "shard": result.hunt.plan.get("shard", ""),
        "seconds": round(result.hunt.seconds, 1),
        "programs": result.programs,
        "suspects": result.settled,
        "unexamined": [
            {
                "target": one.lane,
                "program": one.program,
                "inputs": one.body.origin,
                "kind": one.body.kind,
                "stage": one.body.stage,
                "reason": one.body.reason,
            }
            for one in result.unexamined
        ],
        "not_reduced": result.not_reduced,
        "go_on": examine_command(result.hunt.id, store.path) if is_left(result) else "",
        "unsettled": [asdict(one) for one in listed_suspects(HuntLog(store), [result.hunt])],
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
                "title": title_of(bug),
                "summary": bug.summary,
                "causes": [cause.note() for cause in causes_of(bug, library)],
                "debate": debate_of(bug),
                "replay": replay_command(bug.id, store.path),
            }
            for bug in result.bugs.values()
        ],
        "failed_steps": [step.to_json() for step in result.failed_steps],
        "internal_errors": result.internal_errors,
        "store": str(store.path),
    }


def show_hunt(result: HuntResult, store: Store, report: Path | None = None, library: Library | None = None) -> None:
    """Print the bugs that were found, the worst first, the clearest one in full, and the next commands. If one section
    fails, the others are still shown.
    """
    failed = result.failed_steps
    out = Screen(width=None if sys.stdout.isatty() else 150, highlight=False, soft_wrap=False)
    programs = sum(result.programs.values())
    tested = f"{plural(programs, 'program')} on {plural(len(result.programs), 'compiler')}"
    out.print(f"\n{tested} in {duration(result.hunt.seconds)}.")
    with closing_step(failed, "showing what language models were asked"):
        _show_models(out, result, store)
    for lane, reason in result.stopped.items():
        out.print(f"{lane} stopped early: {escape(reason)}")
    if not result.bugs:
        _show_other_failures(out, result, store)
        out.print(
            "No bug was found. A longer --budget or another --seed looks elsewhere."
            if result.judged
            else "Nothing was compared: no target works."
            if result.broken and len(result.broken) == len(result.programs)
            else "Nothing was compared: no program came to a verdict. Give it more time, or other --targets."
        )
        return
    bugs: list[BugView] = []
    with closing_step(failed, "listing the bugs", "they are shown by their names"):
        bugs = [bug for bug in gather_store(store, library).bugs if bug.id in result.bugs]
        out.print(f"{_counted(bugs, len(result.new))}\n")
        _show_bugs(out, bugs)
    if not bugs:
        for known in result.bugs.values():
            out.print(f"{known.id}  {escape(known.summary)}")
    _show_other_failures(out, result, store)
    if bugs:
        with closing_step(failed, "showing the clearest bug", "driftline bugs show prints any of them"):
            _show_clearest(out, bugs)
    place = f" --store {shell([store.path])}" if store.path != default_store() else ""
    out.print(f"\nReport:  {report or f'driftline report{place} --out report.html'}", soft_wrap=True)


def _counted(bugs: Sequence[BugView], new: int) -> str:
    """Summarise the bugs: `7 distinct bugs, and 2 debatable ones, in 4 compilers, each run again in a fresh process.
    ...`
    """
    reduced = sum(bug.group == REDUCED for bug in bugs)
    debatable = sum(bug.debatable and bug.group != REDUCED for bug in bugs)
    compilers = plural(len({bug.compiler for bug in bugs}), "compiler")
    plain = len(bugs) - reduced - debatable
    parts = [f"[bold]{plural(plain, 'distinct bug')}[/]"] if plain or not debatable else []
    parts += [f"{debatable} debatable {'one' if parts else 'bug'}{'s' if debatable > 1 else ''}"] if debatable else []
    parts += [f"{plural(reduced, 'result')} of less precision"] if reduced else []
    found = f"{', and '.join(parts)}, in {compilers}" if len(parts) > 1 else f"{parts[0]} in {compilers}"
    known = sum(bool(bug.causes) for bug in bugs)
    reported = sum(any(cause.reported for cause in bug.causes) for bug in bugs)
    told = [f"{known} of them {'has' if known == 1 else 'have'} a known cause"] if known else []
    told += [f"{reported} with a report upstream"] if reported else []
    told += [f"{new} {'was' if new == 1 else 'were'} not in this store before"]
    return f"{found}, each run again in a fresh process. {', '.join(told)[:1].upper()}{', '.join(told)[1:]}."


def _show_bugs(out: Console, bugs: Sequence[BugView]) -> None:
    """Print a row for each bug. Bugs of one cause stand together, with the cause below the first of them."""
    table = WordedTable(("bug", WRONG, "seen", "status"), words=WRONG, right=("seen",))
    told: set[str] = set()
    for bug in in_order(bugs[:MOST_ROWS]):
        words = escape(_short(bug.title))
        for cause in bug.causes[:1]:
            title = f" {_short(cause.title)}" if cause.id not in told else ""
            words += f"\n[dim]cause:{escape(title)} ({escape(cause.id)})[/]"
            told.add(cause.id)
        if bug.debatable:
            words += f"\n[dim]debatable: {escape(_short(bug.debated))}[/]"
        status = "accepted" if bug.group == ACCEPTED else bug.status
        table.add(bug.id, words, str(bug.sightings), status)
    table.print(out)
    if len(bugs) > MOST_ROWS:
        out.print(f"... and {len(bugs) - MOST_ROWS} more: driftline bugs list")


def _show_models(out: Console, result: HuntResult, store: Store) -> None:
    """Print how the language models were used and what their answers led to."""
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


def _show_other_failures(out: Console, result: HuntResult, store: Store) -> None:
    """Print the outcome of all failing programs, list those that no compiler is blamed for, and print how to
    continue.
    """
    if told := account(result.settled):
        out.print(f"\n{told}")
    suspects = listed_suspects(HuntLog(store), [result.hunt])
    for one in suspects[:MOST_ROWS]:
        out.print(f"  {escape(f'{one.target}, {one.program}: {one.kind}, {one.state}: {one.reason}')}", soft_wrap=True)
    if len(suspects) > MOST_ROWS:
        out.print(f"  ... and {len(suspects) - MOST_ROWS} more in the report")
    if left := result.unexamined:
        out.print("Not examined, the worst first:")
        for suspect in left[:MOST_LEFT]:
            out.print(f"  {escape(_short(suspect.sentence))}")
        if len(left) > MOST_LEFT:
            out.print(f"  ... and {len(left) - MOST_LEFT} more (--json has them all)")
    if names := list(result.not_reduced):
        shown = ", ".join(names[:MOST_LEFT]) + (f" and {len(names) - MOST_LEFT} more" if names[MOST_LEFT:] else "")
        out.print(f"\n{plural(len(names), 'bug')} not reduced: {shown}", soft_wrap=True)
        for reason in dict.fromkeys(reason for reason in result.not_reduced.values() if reason != NO_TIME):
            out.print(f"  {escape(_short(reason))}")
    if is_left(result):
        out.print(f"Go on:   {examine_command(result.hunt.id, store.path)}", soft_wrap=True)


def is_left(result: HuntResult) -> bool:
    """True if resuming the hunt would examine or reduce something."""
    return bool(result.unexamined) or NO_TIME in result.not_reduced.values()


def _show_clearest(out: Console, bugs: Sequence[BugView]) -> None:
    """Print the bug that is easiest to understand, with its script and numbers. Debatable bugs are not considered."""
    clear = clearest([bug for bug in bugs if not bug.debatable])
    if clear is None:
        return
    out.print(f"\n[bold]The clearest one[/], {clear.compiler}: {escape(clear.title)}\n")
    lines = [line for line in clear.shortest.script.splitlines() if line.strip()]
    for line in lines[:PROGRAM_LINES]:
        out.print(f"    {escape(line[:130])}", style="cyan")
    if len(lines) > PROGRAM_LINES:
        out.print(f"    ... ({len(lines) - PROGRAM_LINES} more lines in the report)", style="dim")
    mismatch = clear.shortest.mismatch
    places = mismatch.places if mismatch else ()
    if mismatch and places and places[0].index:
        worst = places[0]
        place = f" at {worst.index}" if worst.index != SCALAR else ""
        told = f"{called(mismatch.output)}{place}: expected {worst.expected}, got {worst.got}"
        out.print(f"\n  {escape(told)}")
    else:
        out.print(f"\n  {escape(clear.reason[:300])}")
    out.print(f"\nRun it again:  {clear.replay}", soft_wrap=True)


def _short(text: str, limit: int = 120) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
