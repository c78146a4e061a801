"""Print the pairwise comparison of targets on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from driftline.report.pairwise import pairwise_view
from driftline.report.view import MeasureView

_STYLES = ("green", "", "yellow", "yellow", "red", "bold red")  # by the level of a cell


def show_pairwise(out: Console, body: Mapping[str, Any]) -> None:
    """Print the pairwise comparison. One target stands for all targets with the same bits, which the sentences name."""
    view = pairwise_view(body)
    groups = {group[0]: len(group) for group in body["groups"]["bitwise"]}
    shown = [at for at, name in enumerate(view.members) if name in groups]
    names = [f"{name}, and {groups[name] - 1} with the same bits" if groups[name] > 1 else name for name in groups]
    out.print(f"\n[bold]Pairwise[/]: {escape(view.title)}")
    tables = [_table(measure, shown, names) for measure in view.measures] if len(shown) > 1 else []
    if all(Measurement.get(out, out.options, table).maximum <= out.width for table in tables):
        for table in tables:
            out.print(table)
    else:
        _print_list(out, view.measures[0], shown)
    for sentence in view.sentences:
        out.print(escape(f"- {sentence}"), soft_wrap=True)


def _table(measure: MeasureView, shown: Sequence[int], names: Sequence[str]) -> Table:
    """Return the lower triangle of the matrix; it is symmetric."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column(f"largest {measure.name} difference", no_wrap=True)
    for number in range(1, len(shown)):
        table.add_column(str(number), justify="right", no_wrap=True)
    for number, (at, name) in enumerate(zip(shown, names, strict=True)):
        row = [measure.rows[at][other] for other in shown[:number]]
        cells = [f"[{style}]{cell.text}[/]" if (style := _STYLES[cell.level]) else cell.text for cell in row]
        table.add_row(str(number + 1), escape(name), *cells)
    return table


def _print_list(out: Console, measure: MeasureView, shown: Sequence[int]) -> None:
    """Print one line for each pair, for terminals that are too narrow for the matrix."""
    for number, at in enumerate(shown):
        for other in shown[:number]:
            out.print(escape(f"  {measure.rows[at][other].told}"), soft_wrap=True)
