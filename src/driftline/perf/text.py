"""Print the results of `driftline perf` on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from driftline.core.text import plural
from driftline.measure.words import milliseconds, times
from driftline.perf.comparison import FASTER, SLOW, SLOWER, UNCONFIRMED
from driftline.perf.hunt import NOT_SLOW, SLOW_AGAIN, UNCONFIRMED_SLOW
from driftline.perf.journal import PerfHuntEntry
from driftline.perf.result import SCHEMA, GrowthRow, PerfRow, PerfRun
from driftline.perf.twins import MADE_TWINS
from driftline.perf.words import exponent
from driftline.report.results import bug_json, command
from driftline.report.screen import console
from driftline.report.titles import title_of
from driftline.report.words import duration
from driftline.store import Store

_STYLES = {SLOW: "bold red", SLOWER: "yellow", UNCONFIRMED: "yellow", FASTER: "green"}


def show_perf(run: PerfRun, store: Path) -> None:
    """Print the noise, a table of results, and the findings with commands to show and replay them."""
    out = console()
    floors = {row.against: row.floor for row in run.rows if row.floor}
    for against, floor in floors.items():
        who = "the twin" if against == "twin" else f"another {against}" if against in MADE_TWINS else against
        out.print(escape(f"Noise floor, {who} against itself: {floor:.2f}x. Nothing is concluded below that."))
    if run.rows:
        out.print(_table(run.rows))
    if run.rows and run.measured and not any(one.instructions for row in run.rows for one in row.measured):
        out.print("The kernel of this machine counts no instructions; times need no such count.", style="dim")
    for row in run.growth:
        _show_growth(row)
    for bug in [*(row.bug for row in run.rows if row.bug), *(bug for row in run.growth for bug in row.bugs)]:
        shown = f"{command('bugs show', bug, store)}; measure it again: {command('replay', bug, store)}"
        out.print(escape(f"found {bug}: {shown}"))
    if not run.found and run.measured:
        out.print(escape(f"Nothing is slower than {run.ratio:g}x, twice in a row and beyond the noise."))


def _table(rows: Sequence[PerfRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    counted = any(one.instructions for row in rows for one in row.measured)
    columns = ("target", "against", "CPU time", "wall time", *(["instructions"] if counted else []))
    for column in (*columns, "ms", "against ms", "again", "conclusion"):
        table.add_column(column, overflow="fold")
    for row in rows:
        style = _STYLES.get(row.conclusion, "")
        said = f"{row.conclusion}: {row.problem}" if row.problem else row.conclusion
        shown = f"[{style}]{escape(said)}[/]" if style else escape(said)
        if not row.measured:
            table.add_row(escape(row.target), escape(row.against), *[""] * (5 + counted), escape(row.problem))
            continue
        first = row.measured[0]
        again = times(row.measured[1].ratio) if len(row.measured) > 1 else ""
        table.add_row(
            escape(row.target),
            escape(row.against),
            times(first.ratio),
            times(first.wall),
            *([times(first.instructions) if first.instructions else ""] if counted else []),
            milliseconds(first.own_seconds),
            milliseconds(first.other_seconds),
            again,
            shown,
        )
    return table


def _show_growth(row: GrowthRow) -> None:
    out = console()
    if row.problem:
        out.print(escape(f"Growth on {row.target}: {row.problem}"))
        return
    out.print(escape(f"Growth on {row.target}:"))  # as a title of the table it would be broken to its width
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("nodes", "compile CPU s", "peak MiB"):
        table.add_column(column, justify="right")
    for nodes, seconds, memory in zip(row.nodes, row.seconds, row.memory, strict=True):
        table.add_row(str(nodes), f"{seconds:.2f}", str(memory >> 20))
    out.print(table)
    series = plural(len(row.time_exponents), "series", "series")
    told = "; ".join(
        f"{what} grows as nodes^{', '.join(exponent(one) for one in found)}"
        for what, found in (("time", row.time_exponents), ("memory", row.memory_exponents))
    )
    out.print(escape(f"{told} ({series}): {', '.join(row.found) or 'no finding'}"))


def show_hunt(entry: PerfHuntEntry, store: Store) -> None:
    """Print the outcomes of the programs of a hunt, and the bugs."""
    out = console()
    came = (
        ", ".join(f"{count} {words}" for words, count in Counter(entry.counts).most_common()) or "none came to its end"
    )
    programs = f"{plural(entry.number, 'program')} on {plural(len(entry.plan.targets), 'target')}"
    out.print(escape(f"{programs} in {duration(entry.seconds)}, seed {entry.plan.seed}: {came}."))
    for bug in map(store.bug, entry.bugs):
        out.print(escape(f"{bug.id}  {title_of(bug)}"))
        out.print(escape(f"  {bug.summary}"), style="dim")


def hunt_json(entry: PerfHuntEntry, store: Store) -> dict[str, Any]:
    bugs = [bug_json(store.bug(name), store.path) for name in entry.bugs]
    return {"schema": SCHEMA, **asdict(entry), "bugs": bugs}


def was_timed(entry: PerfHuntEntry) -> bool:
    return any(entry.counts.get(words) for words in (SLOW, SLOW_AGAIN, NOT_SLOW, UNCONFIRMED_SLOW))
