"""The list of bugs on the screen. It imports little: listing is what people do all the time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.markup import escape

from driftline.causes import Library
from driftline.core.text import first_line
from driftline.report.annotated import by_cause, words_of
from driftline.report.screen import console
from driftline.report.worded_table import SEEN, WordedTable
from driftline.store import Bug


def show_bugs(
    bugs: list[Bug],
    store: Path,
    library: Library | None = None,
    *,
    total: int,
    like: Mapping[str, str],
) -> None:
    """Some of `total` bugs, those of one cause under its title; `like` says which of them look like another one."""
    out = console()
    if not bugs:
        out.print(f"No such bugs in {escape(str(store))}." if total else f"No bugs in {escape(str(store))}.")
        return
    table = WordedTable(("bug", "status", "kind", "stage", SEEN), words=SEEN, header_style="dim")
    groups = by_cause(bugs, library)
    for cause, together in groups:
        if cause or len(groups) > 1:
            table.add("", "", "", "", f"[bold]{escape(words_of(cause)) if cause else 'without a known cause'}[/]")
        for bug in together:
            status = "accepted" if cause and cause.accepted else str(bug.status)
            summary = escape(first_line(bug.summary, 200))
            if bug.id in like:
                summary += f"\n[dim]looks like {escape(like[bug.id])}[/]"
            table.add(bug.id, status, bug.fingerprint.kind, bug.fingerprint.stage, summary)
    table.print(out)
    if len(bugs) < total:
        out.print(
            f"The most serious {len(bugs)} of {total}. --limit 0 shows all;"
            " --compiler, --kind, --status, --since choose."
        )
