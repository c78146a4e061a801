"""The matrix of all targets against each other, on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from driftline.report.pairwise import pairwise_view
from driftline.report.view import MeasureView, PairwiseView

_CELL = 9  # columns of one cell, with the space beside it
_STYLES = ("green", "", "yellow", "yellow", "red", "bold red")  # by the level of a cell


def show_pairwise(out: Console, body: Mapping[str, Any]) -> None:
    view = pairwise_view(body)
    out.print(f"\n[bold]Pairwise[/]: {escape(view.title)}")
    if view.measures and _fits(view, out.width):
        for measure in view.measures:
            out.print(_table(view, measure))
    elif view.measures:
        _print_list(out, view)
    for sentence in view.sentences:
        out.print(escape(f"- {sentence}"), soft_wrap=True)


def _fits(view: PairwiseView, width: int) -> bool:
    return max(map(len, view.members)) + 4 + _CELL * (len(view.members) - 1) <= width


def _table(view: PairwiseView, measure: MeasureView) -> Table:
    """The triangle below the diagonal: the other one would say the same."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column(f"largest {measure.name} difference", no_wrap=True)
    for number in range(1, len(view.members)):
        table.add_column(str(number), justify="right", no_wrap=True)
    for at, name in enumerate(view.members):
        cells = [f"[{style}]{c.text}[/]" if (style := _STYLES[c.level]) else c.text for c in measure.rows[at][:at]]
        table.add_row(str(at + 1), escape(name), *cells)
    return table


def _print_list(out: Console, view: PairwiseView) -> None:
    """One line for each pair, where a matrix is too wide."""
    for at in range(len(view.members)):
        for cell in view.measures[0].rows[at][:at]:
            out.print(escape(f"  {cell.told}"), soft_wrap=True)
