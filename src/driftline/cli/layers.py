"""`driftline check --layers`: looking, showing, and the page of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from driftline.cli.common import Activity, note
from driftline.core.errors import DriftlineError

if TYPE_CHECKING:
    from driftline.checking.result import CheckResult
    from driftline.execute.pool import Pool
    from driftline.store import Store

EXPECTED = 30.0  # seconds for one target


def require_layers(option: str, *, layers: bool) -> None:
    """An option of the view that was typed without the view would do nothing."""
    typed = click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE
    if typed and not layers:
        raise DriftlineError(f"--{option} chooses what --layers looks at; add --layers, or leave --{option} out.")


def require_page(path: Path, *, layers: bool) -> None:
    """Refuse early what cannot be written."""
    from driftline.core.output_place import require_place

    if not layers:
        raise DriftlineError("--out writes the view of --layers; add --layers, or use driftline report --out.")
    if path.suffix.lower() not in (".html", ".htm"):
        raise DriftlineError(f"--out {path}: the view is written as a page; name a file that ends in .html.")
    require_place(path, "layers.html")


def look_layers(result: CheckResult, store: Store, pool: Pool, taps: str) -> list[dict[str, Any]]:
    from driftline.campaign.layering import look_inside
    from driftline.checking.checker import Checker

    with Activity("Looking at layers", EXPECTED * max(1, len(result.results))) as progress:
        return look_inside(Checker(pool), store, result, taps=taps, listener=progress)


def show_views(views: Sequence[dict[str, Any]]) -> None:
    from driftline.report.layer_table import show_layers
    from driftline.report.screen import console

    out = console()
    for body in views:
        show_layers(out, body)


def write_page(path: Path, views: Sequence[dict[str, Any]]) -> None:
    import driftline
    from driftline.report.formats import write
    from driftline.report.html import render_layers
    from driftline.report.layers import view_of

    write(path, render_layers([view_of(body) for body in views], driftline.__version__))
    note(f"Written to {path}.")
