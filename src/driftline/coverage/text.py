"""Show coverage in the terminal and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from driftline.coverage.levels import LEVELS, CellState, CompilerCoverage, Coverage, Level, state_of
from driftline.coverage.thresholds import Below, Threshold
from driftline.generate.operator import ALL, COMPLEX, WIDE_UNSIGNED
from driftline.report.screen import console

SCHEMA = 1
NAMED = 5  # missing things that the terminal names
_DTYPES = (*ALL, *WIDE_UNSIGNED, *COMPLEX)


def dtypes_of(cells: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the dtypes that occur, in the order of the operator table, followed by others."""
    met = {dtype for by_dtype in cells.values() for dtype in by_dtype}
    return [*(dtype for dtype in _DTYPES if dtype in met), *sorted(met - set(_DTYPES))]


def share(level: Level) -> str:
    """Format the covered share, rounded down: 99.9 % is not everything."""
    return "-" if level.percent is None else f"{int(level.percent)} %"


def lacks(level: Level) -> str:
    """Name the first missing items, and count the others."""
    named = ", ".join(level.missing[:NAMED])
    more = f" and {len(level.missing) - NAMED:,} more" if len(level.missing) > NAMED else ""
    return f"{named}{more}"


def show(coverage: Coverage, below: Sequence[Below] = ()) -> None:
    """Print a row for each compiler, then the missing items. For a single compiler, print its dtypes too."""
    out = console()
    for gap in coverage.gaps:
        out.print(f"[yellow]{escape(gap)}[/]")
    table = Table(box=None, pad_edge=False)
    table.add_column("compiler", no_wrap=True)
    table.add_column("release", overflow="fold")
    table.add_column("programs", justify="right")
    for name in LEVELS:
        table.add_column(name, justify="right")
    for one in coverage.compilers:
        cells = [
            f"{share(level)}  {level.covered:,}/{level.total:,}" if level.total else share(level)
            for level in one.levels
        ]
        table.add_row(one.name, escape(" ".join(one.versions)), f"{one.programs:,}", *cells)
    out.print(table)
    if len(coverage.compilers) == 1:
        _show_dtypes(out, coverage.compilers[0])
    for one in coverage.compilers:
        _show_missing(out, one)
    for low in below:
        out.print(f"\n[bold red]Too little[/]: {escape(str(low))}", soft_wrap=True)


def _show_dtypes(out: Any, one: CompilerCoverage) -> None:
    out.print(f"\n[bold]Operators of {escape(one.name)} by dtype[/]")
    table = Table(box=None, pad_edge=False)
    table.add_column("dtype")
    for state in CellState:
        table.add_column(str(state), justify="right")
    listed = {operator: cells for operator, cells in one.cells.items() if operator in one.listed}
    for dtype in dtypes_of(listed):
        counts = one.states(dtype)
        table.add_row(dtype, *(str(counts[state] or "·") for state in CellState))
    out.print(table)


def _show_missing(out: Any, one: CompilerCoverage) -> None:
    rows = [level for level in one.levels if level.missing or level.note]
    if rows:
        out.print(f"\n[bold]{escape(one.name)}[/]")
    last = {level.command: level.name for level in rows}  # one command may cover two levels: it is shown once
    for level in rows:
        words = f"{len(level.missing):,} missing: {lacks(level)}." if level.missing and level.total else ""
        told = f"  {level.name:13} {' '.join(filter(None, (words, level.note)))}"
        if out.is_terminal:  # a sentence is broken between its words; a command stays whole, to be copied
            told = textwrap.fill(told, out.width, subsequent_indent=" " * 16, break_on_hyphens=False)
        out.print(escape(told), soft_wrap=True)
        if level.command and last[level.command] == level.name:
            out.print(f"  {'':13} {escape(level.command)}", style="cyan", soft_wrap=True)


def coverage_json(coverage: Coverage, thresholds: Sequence[Threshold], below: Sequence[Below]) -> dict[str, Any]:
    """Return the output of `driftline coverage --json`; docs/json.md has the schema."""
    return {
        "schema": SCHEMA,
        "store": coverage.store,
        "compilers": {one.name: _compiler_json(one) for one in coverage.compilers},
        "fail_under": [str(threshold) for threshold in thresholds],
        "below": [{"compiler": low.compiler, "level": low.level.name, "sentence": str(low)} for low in below],
        "gaps": list(coverage.gaps),
    }


def _compiler_json(one: CompilerCoverage) -> dict[str, Any]:
    return {
        "versions": list(one.versions),
        "programs": one.programs,
        "seconds": round(one.seconds, 1),
        "levels": {
            level.name: {
                "covered": level.covered,
                "total": level.total,
                "percent": None if level.percent is None else round(level.percent, 2),
                "missing": list(level.missing),
                "command": level.command,
                "note": level.note,
            }
            for level in one.levels
        },
        "operators": {
            operator: {
                dtype: {"state": str(state_of(counts)), "programs": dict(counts)} for dtype, counts in by_dtype.items()
            }
            for operator, by_dtype in one.cells.items()
        },
        "suite_operators": sorted(set(one.cells) - one.listed),
        "rules": [
            {"id": rule.id, "name": rule.name, "fired": rule.fired, "unreachable": rule.unreachable}
            for rule in one.rules
        ],
        "models": [
            {"name": row.name, "state": str(row.state), "runs": row.runs, "fails": row.fails} for row in one.models
        ],
    }
