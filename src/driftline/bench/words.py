"""Rows and numbers of a run in words."""

from __future__ import annotations

from driftline.bench.result import BenchRow
from driftline.measure.estimate import Estimate


def milliseconds(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 1 else f"{value:.3g}"


def times(ratio: Estimate) -> str:
    """A ratio with its interval."""
    return f"{ratio.value:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"


def row_words(row: BenchRow) -> str:
    """A row in a line, as soon as it is there."""
    verdict = f", {row.verdict}" if row.verdict else ""
    if row.problem:
        return f"{row.outcome}: {row.problem}{verdict}"
    if row.speedup is None or row.wall is None:
        return row.outcome + verdict
    told = f"{milliseconds(row.wall.value)} ms, {times(row.speedup)}"
    return told + (f", {row.conclusion}" if row.conclusion else "") + verdict
