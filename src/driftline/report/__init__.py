"""Results for readers: one file per format. Engines know none of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftline.causes import Library
    from driftline.store import Store


def write_report(store: Store, out: Path, format: str | None = None, library: Library | None = None) -> None:
    """Write what an open store holds, in the format asked for or that of the file's suffix."""
    from driftline.report.formats import choose_format
    from driftline.report.pages import write_paged

    write_paged(store, out, choose_format(format, out), library)
