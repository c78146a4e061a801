"""Print a layer-by-layer view on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from driftline.report.layers import BAR, abridged, bar, common_module, share_of, size_of, sizes, view_of
from driftline.report.view import LayerView


def show_layers(out: Console, body: Mapping[str, Any]) -> None:
    """Print the table of layers and the sentences of a layer-by-layer view."""
    view = view_of(body)
    against = f" against {view.reference}" if view.reference else ""
    out.print(f"\n[bold]Layer by layer[/]: {escape(view.program)}{escape(against)} on {escape(view.target)}")
    if view.layers:
        out.print(_table(view))
    for sentence in view.sentences:
        out.print(escape(f"- {sentence}"))


def _table(view: LayerView) -> Table:
    shared = common_module(view)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column(f"layer (in {escape(shared)})" if shared else "layer", overflow="fold", max_width=44)
    table.add_column("operator", no_wrap=True, max_width=28)
    table.add_column("shape", no_wrap=True)
    for name in ("sigma", "rms", "relative", "alone"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=BAR + 1)
    for item in abridged(view):
        if isinstance(item, str):
            table.add_row("", f"[dim]{item}[/]")
            continue
        style = "bold red" if item.number == view.first else "red" if item.beyond else ""
        cells = (
            "" if item.output else str(item.number),
            escape(
                ("► " if item.number == view.first else "") + item.title.removeprefix(f"{shared}." if shared else "")
            ),
            escape(item.op),
            sizes(item.shape) or "()",
            escape(size_of(item.sigma) or ("NaN/Inf" if item.beyond else "-")),
            size_of(item.rms),
            share_of(item.relative),
            ("wrong" if item.own_beyond else "right") if item.own_beyond is not None else "",
            f"[{'red' if item.beyond else 'green'}]{bar(item)}[/]",
        )
        table.add_row(*cells, style=style)
    return table
