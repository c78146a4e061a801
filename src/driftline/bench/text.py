"""Print a run, and a comparison of two runs, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.markup import escape
from rich.table import Table

from driftline.bench.compare import BenchComparison
from driftline.bench.result import BenchModel, BenchRow, BenchRun
from driftline.bench.runner import FASTER, NOISE, SLOWER
from driftline.core.text import plural
from driftline.measure.estimate import Estimate
from driftline.measure.words import milliseconds, times
from driftline.report.screen import console

COLUMNS = (
    *("target", "speed-up", "compile s", "latency ms", "eager ms", "CPU ms", "MiB", "graphs", "violations", "verdict"),
)
_FOLDED = {"target": 18, "verdict": 9}  # columns that may be as narrow as this
_WORDS = {NOISE: "in noise", "": "noise"}  # shorter, for the table
_STYLES = {FASTER: "green", SLOWER: "red", "pass": "green", "fail": "bold red"}


def show_run(run: BenchRun) -> None:
    """Print a table for each model."""
    out = console()
    out.print(escape(f"{run.machine}; {run.dtype}, size {run.size}, up to {plural(run.repeat, 'round')}"))
    for model in run.models:
        out.print(f"\n[bold]{model.name}[/] {escape(model.words)}")
        columns, rows = filled(run.rows_of(model.name))
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in columns:
            table.add_column(column, no_wrap=column not in _FOLDED, min_width=_FOLDED.get(column), overflow="fold")
        for row in rows:
            table.add_row(*(_styled(cell) for cell in row))
        out.print(table)
        for line in [*judged_words(model), *notes(run.rows_of(model.name))]:
            out.print(f"  {escape(line)}", style="dim")


def filled(rows: Sequence[BenchRow]) -> tuple[list[str], list[list[str]]]:
    """Return the columns that are not empty in every row, and the rows with only these columns."""
    every = [cells(row) for row in rows]
    used = [at for at in range(len(COLUMNS)) if any(row[at] for row in every)]
    return [COLUMNS[at] for at in used], [[row[at] for at in used] for row in every]


def cells(row: BenchRow) -> tuple[str, ...]:
    """Return the cells of one row, in the order of `COLUMNS`."""
    timed = row.speedup is not None and row.wall is not None and row.cpu is not None
    graphs = "" if row.graphs is None else str(row.graphs)
    graphs += f" ({plural(len(row.breaks), 'break')})" if row.breaks else ""
    return (
        row.target,
        f"{times(row.speedup)} {_WORDS.get(row.conclusion, row.conclusion)}" if row.speedup else row.outcome.lower(),
        "" if row.compile_seconds is None else f"{row.compile_seconds:.1f}",
        latency(row.wall) if timed and row.wall else "",
        _beside(row),
        milliseconds(row.cpu.value) if timed and row.cpu else "",
        "" if row.run_peak is None else str(row.run_peak >> 20),
        graphs,
        "" if row.violations is None else str(row.violations),
        row.verdict,
    )


def latency(wall: Estimate) -> str:
    """Format milliseconds with their interval, whose ends are given since it is rarely symmetric."""
    return f"{milliseconds(wall.value)} [{milliseconds(wall.low)}, {milliseconds(wall.high)}]"


def _beside(row: BenchRow) -> str:
    """Return eager's latency in the same rounds, which the speed-up refers to. The latencies of two rows cannot be
    divided by each other, since two processes of the same program differ.
    """
    return milliseconds(median(row.eager_rounds.wall)) if row.eager_rounds else ""


def _styled(cell: str) -> str:
    style = next((style for word, style in _STYLES.items() if cell == word or cell.endswith(f"] {word}")), "")
    return f"[{style}]{escape(cell)}[/]" if style else escape(cell)


def judged_words(model: BenchModel) -> list[str]:
    """Name the input of the verdicts if it is not the one that was timed."""
    return [f"verdicts: on {model.judged_on}, with the same weights"] if model.judged_on else []


def notes(rows: Sequence[BenchRow]) -> list[str]:
    """Return lines on problems, graph breaks, and verdicts other than pass."""
    told = [f"{row.target}: {row.outcome.lower()}: {row.problem}" for row in rows if row.problem]
    told += [f"{row.target}: graph break: {reason}" for row in rows for reason in dict.fromkeys(row.breaks)]
    told += [f"{row.target}: {row.verdict}: {row.reason}" for row in rows if row.verdict not in ("", "pass")]
    return told


def show_comparison(found: BenchComparison) -> None:
    """Print the changes between two runs."""
    out = console()
    for note in found.notes:
        out.print(escape(note), style="dim")
    for change in found.changes:
        sign = "[red]worse [/]" if change.worse else "[green]better[/]"
        took = f" (takes {times(change.factor)} as long, eager set aside)" if change.factor else ""
        said = f"{change.model} on {change.target}: {change.what} {change.before} -> {change.after}{took}"
        out.print(f"{sign} {escape(said)}")
    for where, names in ((found.before, found.only_before), (found.after, found.only_after)):
        if names:
            out.print(escape(f"only in {where}: {', '.join(names)}"))
    if not found.changes:
        out.print(f"Nothing changed beyond noise in {plural(found.compared, 'row')}.")
