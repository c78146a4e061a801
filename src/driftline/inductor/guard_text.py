"""Formats a guard report as text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from driftline.inductor.page import short_path

if TYPE_CHECKING:
    from driftline.inductor.guards import CapturedGraph, GuardReport

_SHOWN = 12  # guards of each graph
_DULL = re.compile(r"___|\._(?:modules|parameters|buffers)\b")  # torch's own attributes inside a module


def report_text(report: GuardReport, *, guards: bool = True) -> str:
    return "\n".join(_lines(report, guards))


def _lines(report: GuardReport, guards: bool) -> Iterator[str]:
    yield (
        f"{_count(report.calls, 'call')}: {_count(len(report.graphs), 'graph')},"
        f" {_count(len(report.breaks), 'graph break')}, {_count(len(report.recompilations), 'recompilation')}"
    )
    if report.error:
        yield f"a call failed: {report.error}"
    if report.breaks:
        yield "\nGraph breaks"
    for one in report.breaks:
        yield f"  {short_path(one.file)}:{one.line}  {one.code}"
        yield f"    {one.reason}"
    if report.recompilations:
        yield "\nRecompilations"
    for again in report.recompilations:
        change = f": compiled for {again.expected}, came {again.actual}" if again.expected else ""
        yield f"  {again.id} {again.function}, call {again.call}: {again.guard}"
        if change:
            yield f"    {again.subject}{change}"
    if report.storm:
        yield f"\n{report.storm}"
    if guards:
        first: dict[str, CapturedGraph] = {}
        for graph in report.graphs:
            frame = graph.id.partition("/")[0]
            yield from _graph(graph, first.get(frame))
            first.setdefault(frame, graph)
    if report.advice:
        yield "\nAdvice"
        yield from (f"  - {text}" for text in report.advice)


def _graph(graph: CapturedGraph, before: CapturedGraph | None) -> Iterator[str]:
    """Yield the lines about a graph; if its frame was compiled before, only the guards that differ."""
    place, size = f"{short_path(graph.file)}:{graph.line}", _count(graph.operators, "operator")
    yield f"\nGraph {graph.id}: {graph.function} ({place}), {size}. It is used again while"
    told = [guard for guard in graph.guards if guard.about in ("input", "module") and not _DULL.search(guard.words)]
    old = {guard.words for guard in before.guards} if before else set()
    new = [guard for guard in told if guard.words not in old]
    yield from (f"  {guard.words}" for guard in new[:_SHOWN])
    left = len(graph.guards) - min(len(new), _SHOWN)
    if left:
        yield f"  and {_count(left, 'other guard')}" + (f", as in {before.id}" if before else " (--json has them all)")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
