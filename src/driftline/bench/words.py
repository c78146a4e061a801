"""Describe the rows of a run in words."""

from __future__ import annotations

from driftline.bench.result import BenchRow
from driftline.measure.words import milliseconds, times


def row_words(row: BenchRow) -> str:
    """Describe a row in one line."""
    verdict = f", {row.verdict}" if row.verdict else ""
    if row.problem:
        return f"{row.outcome}: {row.problem}{verdict}"
    if row.speedup is None or row.wall is None:
        return row.outcome + verdict
    told = f"{milliseconds(row.wall.value)} ms, {times(row.speedup)}"
    return told + (f", {row.conclusion}" if row.conclusion else "") + verdict
