"""Print the result of solving for inputs on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from driftline.report.words import plural

if TYPE_CHECKING:
    from driftline.campaign.check.solving import Solved
    from driftline.inputs.symbolic.requests import SearchRow

_FEW = 4  # variables of a slice that are shown


def show_solved(out: Console, solved: Solved) -> None:
    """Print a table of queries with their answers, and a summary."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("node", "goal", "answer", "seconds", "how"):
        table.add_column(name, no_wrap=name != "how", overflow="fold", justify="right" if name == "seconds" else "left")
    for row in solved.rows:
        table.add_row(_node(row), row.goal, _answer(row), f"{row.seconds:.2f}", escape(_how(row)))
    if solved.rows:
        out.print(table)
    out.print(_summary(solved))


def _node(row: SearchRow) -> str:
    return escape(row.label or row.node)


def _answer(row: SearchRow) -> str:
    if row.outcome == "witness":
        return "[bold red]witness[/]" if row.reach == "program" else "[yellow]slice only[/]"
    return "[green]impossible[/]" if row.outcome == "proof" else "[dim]unknown[/]"


def _how(row: SearchRow) -> str:
    if row.outcome == "proof":
        return f"proved by {row.step}"
    if row.outcome != "witness":
        return "neither found nor excluded in time"
    results = [f"{count} {name}" for count, name in ((row.nan, "NaN"), (row.inf, "Inf")) if count]
    shown = ", ".join(f"{name} = {value:.9g}" for name, value in list(row.numbers.items())[:_FEW])
    more = f", and {len(row.numbers) - _FEW} more" if len(row.numbers) > _FEW else ""
    if row.reach == "program":
        return f"{row.step}: {shown}{more}; results: {' and '.join(results) or 'finite'}"
    return f"{row.step}; no inputs of the program were found for {shown}{more}"


def _summary(solved: Solved) -> str:
    count = {name: sum(row.outcome == name for row in solved.rows) for name in ("witness", "proof", "unknown")}
    reached = sum(row.reach == "program" for row in solved.rows)
    told = (
        f"{plural(len(solved.rows), 'query', 'queries')}: {reached} with a witness, {count['witness'] - reached} in a"
        f" slice only, {count['proof']} proved impossible, {count['unknown']} unknown."
    )
    if solved.unasked:
        told += f" No time was left for {solved.unasked} more; raise --budget, or name a --node."
    return told if solved.rows else "No operator of the program can reach these goals by itself."
