"""Print causes: a list of them, one cause in full, and the results of checking them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from driftline.causes import Cause
from driftline.causes.examined import ExaminedCause, State
from driftline.report.screen import console
from driftline.report.words import plural

_STYLES = {State.HOLDS: "green", State.DUE: "yellow", State.WRONG: "bold red", State.SKIPPED: "dim"}


def show_causes(causes: Sequence[Cause]) -> None:
    """Print a table of causes."""
    out = console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("cause", "what is wrong", "kinds", ""):
        table.add_column(column, overflow="fold")
    for cause in causes:
        marks = [
            name
            for name, holds in (
                ("reported", cause.reported),
                ("debatable", cause.debatable),
                (f"fixed in {cause.fixed}", cause.fixed),
                ("accepted", cause.accepted),
            )
            if holds
        ]
        table.add_row(cause.id, escape(cause.title), ", ".join(cause.kinds), ", ".join(marks))
    if causes:
        out.print(table)
    compilers = len({cause.compiler for cause in causes})
    debatable = sum(bool(cause.debatable) for cause in causes)
    out.print(f"{plural(len(causes), 'cause')} in {plural(compilers, 'compiler')}, {debatable} of them debatable.")


def show_cause(cause: Cause) -> None:
    """Print one cause in full."""
    out = console()
    out.print(f"[bold]{escape(cause.id)}[/bold]: {escape(cause.compiler)}: {escape(cause.title)}")
    for name, text in (
        ("seen in", ", ".join(cause.seen)),
        ("fixed in", cause.fixed),
        ("reported", cause.reported),
        ("debatable", cause.debatable),
        ("accepted", "its bugs do not count" if cause.accepted else ""),
        ("file", str(cause.path or "")),
    ):
        if text:
            out.print(f"{name}: {escape(text)}", soft_wrap=True)
    out.print("\n[bold]It explains failures with[/bold]")
    for name, text in cause.conditions():
        out.print(f"  {name}: {escape(text)}", soft_wrap=True)
    out.print(f"\n[bold]Witness[/bold], on {escape(cause.witness.target)}")
    out.print(Syntax(cause.witness.program, "python", background_color="default"))
    beside = cause.neighbour
    if beside:
        planted = f", with a planted fault: {beside.plant}" if beside.plant else ""
        out.print(f"[bold]Neighbour[/bold], which it must not explain, on {escape(beside.target)}{escape(planted)}")
        if beside.program != cause.witness.program:
            out.print(Syntax(beside.program, "python", background_color="default"))
        else:
            out.print("  the same program")
    out.print(f"\ncheck it: driftline causes check {cause.id}", soft_wrap=True)


def show_examined(done: Sequence[ExaminedCause]) -> None:
    """Print the result of checking each cause."""
    out = console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("cause", "version", "state", "what was seen"):
        table.add_column(column, overflow="fold")
    for one in done:
        seen = one.reason or one.witness
        table.add_row(one.cause.id, one.version, f"[{_STYLES[one.state]}]{one.state}[/]", escape(seen))
    if done:
        out.print(table)
    counts = Counter(one.state for one in done)
    words = {State.HOLDS: "hold", State.DUE: "due for removal", State.WRONG: "wrong", State.SKIPPED: "skipped"}
    told = ", ".join(f"{counts[state]} {word}" for state, word in words.items() if counts[state])
    out.print(f"{told or 'No causes'}.")
