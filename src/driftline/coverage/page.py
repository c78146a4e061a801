"""Write coverage as one offline page: the pyramid of each compiler, and a map of operators and dtypes."""

from __future__ import annotations

from typing import Any

from driftline import __version__
from driftline.coverage.levels import CellState, CompilerCoverage, Coverage, state_of
from driftline.coverage.text import dtypes_of, lacks, share
from driftline.report.html import few, page_environment
from driftline.store.store import now

_OPEN = 1  # maps that are unfolded: with more compilers, the page is to be skimmed first
# A short class for each state, since a page has tens of thousands of cells, and a sign that needs no colour.
_CLASSES = {
    CellState.NEVER: "z",
    CellState.DECLINED: "d",
    CellState.UNJUDGED: "u",
    CellState.PASSES: "p",
    CellState.MIXED: "m",
    CellState.FAILS: "f",
}
_SIGNS = {CellState.DECLINED: "-", CellState.UNJUDGED: "?"}
_WIDTHS = {"model": 40, "operator": 60, "pass": 80, "construction": 100}  # of the pyramid, in percent


def coverage_page(coverage: Coverage, *, home: str = "") -> str:
    """Return the page. `home`: the address of the site that the page belongs to, for a link back."""
    return (
        page_environment("driftline.coverage")
        .get_template("coverage.html")
        .render(
            coverage=coverage,
            compilers=[_compiler(one) for one in coverage.compilers],
            unfolded=len(coverage.compilers) <= _OPEN,
            states=[(state, _CLASSES[state], _example(state)) for state in CellState],
            made=now(),
            home=home,
            driftline=__version__,
        )
    )


def _compiler(one: CompilerCoverage) -> dict[str, Any]:
    listed = {operator: cells for operator, cells in one.cells.items() if operator in one.listed}
    suites = {operator: cells for operator, cells in one.cells.items() if operator not in one.listed}
    return {
        "one": one,
        "levels": [
            {"level": level, "width": _WIDTHS[level.name], "share": share(level), "lacks": lacks(level)}
            for level in reversed(one.levels)
        ],
        "maps": [
            {"title": title, "dtypes": dtypes_of(cells), "rows": _rows(cells)}
            for title, cells in (("Operators of the table", listed), ("Operators that suites brought", suites))
            if cells
        ],
        "fired": [rule for rule in one.rules if rule.fired],
        "idle": [rule for rule in one.rules if not rule.fired and not rule.unreachable],
        "models": [(row, _CLASSES[row.state]) for row in one.models if row.runs],
    }


def _rows(cells: Any) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return each operator with a class, a text and a description for every dtype; empty where the operator lacks the
    dtype.
    """
    dtypes = dtypes_of(cells)
    return [
        (operator, [_cell(operator, dtype, by_dtype.get(dtype)) for dtype in dtypes])
        for operator, by_dtype in sorted(cells.items(), key=lambda item: item[0].lower())
    ]


def _cell(operator: str, dtype: str, counts: Any) -> tuple[str, str, str]:
    if counts is None:
        return "", "", ""
    state = state_of(counts)
    told = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    return _CLASSES[state], _sign(state, counts), f"{operator} {dtype}: {state}{f' ({told})' if told else ''}"


def _sign(state: CellState, counts: Any) -> str:
    match state:
        case CellState.PASSES:
            return few(counts["pass"])
        case CellState.MIXED:
            return f"{few(counts['fail'])}!"
        case CellState.FAILS:
            return f"✕{few(counts['fail'])}"
    return _SIGNS.get(state, "")


def _example(state: CellState) -> str:
    return _sign(state, {"pass": 12, "fail": 3})
