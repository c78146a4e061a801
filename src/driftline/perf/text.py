"""A `perf check` as people read it on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from driftline.core.text import plural
from driftline.measure.words import milliseconds, times
from driftline.perf.comparison import FASTER, SLOW, SLOWER, UNCONFIRMED
from driftline.perf.result import GrowthRow, PerfRow, PerfRun
from driftline.perf.words import exponent
from driftline.report.screen import console

_STYLES = {SLOW: "bold red", SLOWER: "yellow", UNCONFIRMED: "yellow", FASTER: "green"}


def show_perf(run: PerfRun) -> None:
    """The noise first, then a table, then what was found."""
    out = console()
    floors = {row.against: row.floor for row in run.rows if row.floor}
    for against, floor in floors.items():
        who = "the twin" if against == "twin" else against
        out.print(escape(f"Noise floor, {who} against itself: {floor:.2f}x. Nothing is concluded below that."))
    if run.rows:
        out.print(_table(run.rows))
    for row in run.growth:
        _show_growth(row)
    for bug in [*(row.bug for row in run.rows if row.bug), *(bug for row in run.growth for bug in row.bugs)]:
        out.print(escape(f"found {bug}: driftline bugs show {bug}; measure it again: driftline replay {bug}"))
    if not run.found and run.measured:
        out.print(escape(f"Nothing is slower than {run.ratio:g}x, twice in a row and beyond the noise."))


def _table(rows: Sequence[PerfRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("target", "against", "CPU time", "wall time", "ms", "against ms", "again", "conclusion"):
        table.add_column(column, overflow="fold")
    for row in rows:
        style = _STYLES.get(row.conclusion, "")
        shown = f"[{style}]{escape(row.conclusion)}[/]" if style else escape(row.conclusion)
        if not row.measured:
            table.add_row(escape(row.target), escape(row.against), "", "", "", "", "", escape(row.problem))
            continue
        first = row.measured[0]
        again = times(row.measured[1].ratio) if len(row.measured) > 1 else ""
        table.add_row(
            escape(row.target),
            escape(row.against),
            times(first.ratio),
            times(first.wall),
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
    table = Table(box=None, pad_edge=False, header_style="dim", title=f"Growth on {row.target}", title_justify="left")
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
