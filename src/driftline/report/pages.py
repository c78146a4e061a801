"""Write reports of more bugs than fit on one page: the worst in full, the others as links to small pages of their own.

    report.html            the page
    report-bugs/ID.html    a bug; style.css lies beside it

All pages are plain files that open from disk. Each page is written before the next one is made, so that thousands of
bugs are never in memory together.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from driftline.causes import Library
from driftline.core.errors import DriftlineError
from driftline.core.output_place import require_place
from driftline.report import gather
from driftline.report.formats import render, write
from driftline.report.html import PageWriter
from driftline.report.view import ReportView
from driftline.store import Store

IN_FULL = 100  # bugs on the page itself, where the others have pages


def write_paged(store: Store, out: Path, chosen: str, library: Library | None = None) -> ReportView:
    """Write a report in the format `chosen` and return its view. HTML reports of many bugs get further pages beside
    them.
    """
    require_place(out)
    if chosen != "html":
        report = gather.gather_store(store, library)
    else:
        report = gather.gather_store(store, library, full=IN_FULL)
        if any(not bug.detailed for bug in report.bugs):
            report = _with_pages(store, out, report, library)
    write(out, render(report, chosen))
    return report


def _with_pages(store: Store, out: Path, report: ReportView, library: Library | None) -> ReportView:
    folder = out.with_name(f"{out.stem}-bugs")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise DriftlineError(
            f"--out {out}: the folder {folder} for the pages of its bugs cannot be made: {error.strerror}."
            " Name another file."
        ) from error
    pages = PageWriter(report, out.name)
    write(folder / "style.css", pages.style)
    listed = {bug.id: bug for bug in report.bugs if not bug.detailed}
    for bug in gather.each_in_full(store, list(listed.values()), library):
        _write_page(folder / f"{bug.id}.html", pages.page(bug), out)
    return replace(report, pages=folder.name, gaps=tuple(store.gaps))


def _write_page(path: Path, text: str, out: Path) -> None:
    """Write a page directly, not atomically: there are thousands of pages, and none is linked before all exist."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise DriftlineError(
            f"--out {out}: its page {path} cannot be written: {error.strerror}. Name another file."
        ) from error
