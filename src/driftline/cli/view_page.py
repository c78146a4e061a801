"""`driftline check --out`: a page of its own for the views of `--layers`, `--pairwise` and `--across`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from driftline.cli.common import note
from driftline.core.errors import DriftlineError


def require_page(path: Path, *, wanted: bool) -> None:
    """Refuse early what cannot be written; `wanted`: there is a view to write."""
    from driftline.core.output_place import require_place

    if not wanted:
        raise DriftlineError(
            "--out writes the views of --layers, --pairwise and --across; add --layers or one of the others, or use"
            " driftline report --out."
        )
    if path.suffix.lower() not in (".html", ".htm"):
        raise DriftlineError(f"--out {path}: the view is written as a page; name a file that ends in .html.")
    require_place(path, "views.html")


def write_page(path: Path, program: str, layers: Sequence[dict[str, Any]], matrices: Sequence[dict[str, Any]]) -> None:
    import driftline
    from driftline.report.formats import write
    from driftline.report.html import render_views
    from driftline.report.layers import view_of
    from driftline.report.pairwise import pairwise_view

    views, drawn = [view_of(body) for body in layers], [pairwise_view(body) for body in matrices]
    write(path, render_views(program, views, drawn, driftline.__version__))
    note(f"Written to {path}.")
