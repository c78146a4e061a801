"""Convert the pairwise comparison of targets from its JSON (`docs/json.md`) to cells and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from driftline.report.layers import share_of
from driftline.report.view import MatrixCell, MeasureView, PairwiseView

SAME = "="
INCOMPARABLE = "-"
# Relative differences from which a cell beyond rounding is coloured more strongly.
_STEPS = (1e-4, 1e-2, 0.5)


def pairwise_view(body: Mapping[str, Any]) -> PairwiseView:
    """Convert the stored JSON of a pairwise comparison for display."""
    members = tuple(str(name) for name in body["members"])
    pairs = {frozenset((pair["one"], pair["other"])): pair for pair in body["pairs"]}
    floats = any(pair["ulp"] is not None for pair in body["pairs"])
    measures = (("relative", "relative"), ("absolute", "absolute"), *((("ulp", "ulp"),) if floats else ()))
    return PairwiseView(
        title=str(body["title"]),
        members=members,
        measures=tuple(
            MeasureView(words, tuple(tuple(_cell(pairs, a, b, key) for b in members) for a in members))
            for key, words in measures
            if len(members) > 1
        ),
        sentences=tuple(_sentences(body)),
    )


def _cell(pairs: Mapping[frozenset[str], Mapping[str, Any]], a: str, b: str, measure: str) -> MatrixCell:
    if a == b:
        return MatrixCell("", 0, "")
    pair = pairs[frozenset((a, b))]
    told = f"{a} against {b}: {_described(pair)}"
    if pair["incomparable"]:
        return MatrixCell(INCOMPARABLE, 5, told)
    if pair["bitwise"]:
        return MatrixCell(SAME, 0, told)
    if pair["nonfinite"]:
        return MatrixCell("NaN/Inf", 5, told)
    text = _number(pair, measure)
    if pair["within_rounding"]:
        return MatrixCell(text, 1, told)
    return MatrixCell(text, 2 + sum(float(pair["relative"]) >= step for step in _STEPS), told)


def _number(pair: Mapping[str, Any], measure: str) -> str:
    """Format a difference in few digits: short counts of ulp as whole numbers, others with one digit and a power of
    ten. JSON stores infinity as text.
    """
    if pair[measure] is None:
        return INCOMPARABLE
    value = float(pair[measure])
    if measure == "ulp" and value < 1e5:
        return f"{value:.0f}"
    return share_of(value) if isfinite(value) else "inf"


def _described(pair: Mapping[str, Any]) -> str:
    if pair["incomparable"]:
        return str(pair["incomparable"])
    if pair["bitwise"]:
        return "the same bits"
    told = f"{pair['differing']:,} of {pair['elements']:,} elements differ"
    if pair["nonfinite"]:
        told += f", {pair['nonfinite']:,} of them in NaN or infinity"
    if pair["absolute"]:
        told += f"; at most {_number(pair, 'absolute')}, relative {_number(pair, 'relative')}"
        told += f", {_number(pair, 'ulp')} ulp" if pair["ulp"] is not None else ""
    return told + (f"; the largest at {pair['where']}" if pair["where"] else "")


def _sentences(body: Mapping[str, Any]) -> Iterable[str]:
    """Yield sentences on which targets agree with each other."""
    groups = body["groups"]["within_rounding"]
    if len(groups) == 1 and len(body["members"]) > 1:
        yield f"All agree within rounding: {', '.join(groups[0])}."
    elif len(groups) > 1:
        for number, group in enumerate(groups, 1):
            told = ", ".join(group) + (" (alone)" if len(group) == 1 else "")
            yield f"Side {number}, within rounding of each other: {told}."
        yield from _apart(body, groups)
    same = [group for group in body["groups"]["bitwise"] if len(group) > 1]
    yield from (f"The same bits: {', '.join(group)}." for group in same)
    if len(body["members"]) > 1 and not same:
        yield "No two have the same bits."
    for missing in body["missing"]:
        yield f"Not in the matrix: {missing['target']} ({missing['reason']})."
    if len(body["members"]) < 2:
        yield "There are no two results to compare."


def _apart(body: Mapping[str, Any], groups: list[list[str]]) -> Iterable[str]:
    """Yield how far the first member of each further group is from the first member of the first group."""
    pairs = {frozenset((pair["one"], pair["other"])): pair for pair in body["pairs"]}
    for group in groups[1:]:
        yield f"{group[0]} against {groups[0][0]}: {_described(pairs[frozenset((groups[0][0], group[0]))])}."
