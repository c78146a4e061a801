"""Print the list of bugs. The module imports little, since listing is a frequent command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.markup import escape

from driftline.causes import Library
from driftline.core.text import first_line
from driftline.report.annotated import by_cause, words_of
from driftline.report.debate import debate_of
from driftline.report.screen import console
from driftline.report.titles import title_of
from driftline.report.worded_table import WRONG, WordedTable
from driftline.store import Bug


def show_bugs(
    bugs: list[Bug],
    store: Path,
    library: Library | None = None,
    *,
    total: int,
    like: Mapping[str, str],
) -> None:
    """Print the given bugs out of `total`, each with its title and, below that, its cause. `like` maps bugs to the
    similar bug that is named beside them.
    """
    out = console()
    if not bugs:
        out.print(f"No such bugs in {escape(str(store))}." if total else f"No bugs in {escape(str(store))}.")
        return
    table = WordedTable(("bug", "status", "kind", "stage", WRONG), words=WRONG, header_style="dim")
    for cause, together in by_cause(bugs, library):
        for bug in together:
            status = "accepted" if cause and cause.accepted else str(bug.status)
            told = escape(first_line(title_of(bug), 200))
            if cause:
                told += f"\n[dim]{escape(words_of(cause) if bug is together[0] else f'cause: {cause.id}')}[/]"
            if debate := debate_of(bug):
                told += f"\n[dim]debatable: {escape(debate)}[/]"
            if bug.id in like:
                told += f"\n[dim]looks like {escape(like[bug.id])}[/]"
            table.add(bug.id, status, bug.fingerprint.kind, bug.fingerprint.stage, told)
    table.print(out)
    if len(bugs) < total:
        out.print(
            f"The most serious {len(bugs)} of {total}. --limit 0 shows all;"
            " --compiler, --kind, --status, --since choose."
        )
