"""What the rows of `reduce.py` come to: medians by kind of case, and how Driftline stands beside each peer."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from typing import Any


def print_medians(rows: Sequence[Any]) -> None:
    """By kind of case: the medians over seeds. What was stopped counts with what it had asked and left by then."""
    print("\n| case | reducer | queries | in all | nodes left | elements left | seconds | unfinished |")
    print("|---|---|---|---|---|---|---|---|")
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        case = row.case.partition(":" if row.case.startswith("diagnosis") else " seed")[0]
        groups.setdefault((case, row.reducer), []).append(row)
    for (case, reducer), members in groups.items():
        queries, left, elements, seconds = (
            f"{statistics.median(getattr(row, field) for row in members):,.4g}"
            for field in ("queries", "left", "elements", "seconds")
        )
        whole = f"{statistics.median(row.all_queries or row.queries for row in members):,.4g}"
        unfinished = f"{sum(bool(row.trouble) for row in members)} of {len(members)}"
        print(f"| {case} | {reducer} | {queries} | {whole} | {left} | {elements} | {seconds} | {unfinished} |")


def print_standing(rows: Sequence[Any]) -> None:
    """Case by case, not by medians: in how many does what was aimed at hold?"""
    print()
    groups: dict[str, list[tuple[Any, Any]]] = {}
    for ours, theirs in _pairs(rows, "functorch"):
        several = re.match(r"(\w+) k=[23]", ours.case)
        if several:
            groups.setdefault(several[1], []).append((ours, theirs))
    for shape, pairs in groups.items():
        tenth = sum(10 * ours.queries <= theirs.queries for ours, theirs in pairs)
        more = sum(ours.left > theirs.left for ours, theirs in pairs)
        print(
            f"functorch, {shape}, k >= 2: at most a tenth of its queries in {tenth} of {len(pairs)},"
            f" more nodes than it leaves in {more}"
        )
    for mode in ("bisect", "linear"):
        pairs = list(_pairs(rows, f"polygraphy {mode}"))
        if not pairs:
            continue
        nodes = sum(ours.queries <= theirs.queries for ours, theirs in pairs)
        whole = sum(ours.all_queries <= theirs.queries for ours, theirs in pairs)
        fewer = sum(ours.left < theirs.left for ours, theirs in pairs)
        more = sum(ours.left > theirs.left for ours, theirs in pairs)
        smaller = sum(ours.elements < theirs.elements for ours, theirs in pairs)
        by_then = [(ours.after(theirs.queries), (theirs.left, theirs.elements)) for ours, theirs in pairs]
        ahead = sum(mine[0] <= its[0] and mine[1] <= its[1] and mine != its for mine, its in by_then)
        behind = sum(mine[0] > its[0] for mine, its in by_then)
        print(
            f"polygraphy {mode}, {len(pairs)} models: fewer nodes than it leaves in {fewer}, more in {more}, fewer"
            f" elements in {smaller}; with as many queries as it asked, a smaller result (no more nodes, no more"
            f" elements, and fewer of one) in {ahead}, more nodes in {behind}; as many queries or fewer in {nodes}"
            f" until the nodes are found, in {whole} for the whole reduction; it gives up in"
            f" {sum(bool(theirs.trouble) for _, theirs in pairs)}"
        )


def _pairs(rows: Sequence[Any], peer: str) -> Iterator[tuple[Any, Any]]:
    theirs = {row.case: row for row in rows if row.reducer == peer}
    for row in rows:
        if row.reducer == "driftline" and row.case in theirs:
            yield row, theirs[row.case]
