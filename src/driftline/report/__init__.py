"""Writers of results, one module per output format. The modules that produce results do not import them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftline.causes import Library
    from driftline.store import Store


def write_report(store: Store, out: Path, format: str | None = None, library: Library | None = None) -> None:
    """Write the bugs and statistics of an open store to `out`, in the named format or, without one, in the format of
    the file's suffix.
    """
    from driftline.report.formats import choose_format
    from driftline.report.pages import write_paged

    write_paged(store, out, choose_format(format, out), library)
