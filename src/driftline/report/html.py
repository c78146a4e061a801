"""The report as one HTML file: no script, no external resource, light and dark."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Sequence
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from driftline.core.quoting import visible
from driftline.report import figures, words
from driftline.report.clearest import clearest
from driftline.report.growth import draw_growth
from driftline.report.layer_figure import draw_layers
from driftline.report.layers import share_of, size_of, sizes
from driftline.report.model_use import HEAD, model_cells, wasted
from driftline.report.settlement import account
from driftline.report.view import (
    ACCEPTED,
    FIXED,
    FLAKY,
    KNOWN,
    OPEN,
    REDUCED,
    BugView,
    ComparisonView,
    LayerView,
    PairwiseView,
    ReportView,
)

SCRIPT = 24_000  # characters of a script that the page shows
REASONS = 12
UNFOLDED = 10  # with more bugs than this, programs are folded away: the page is to be skimmed first
_UNSTYLED = re.compile(r'<span class="(?:n|o|p|w|nn|bp|si|se|fm|vm|nd|nb|na|nv|err)">([^<]*)</span>')


def render(report: ReportView, *, home: str = "") -> str:
    """Return the page. `home`: the address of the site that the page belongs to, for a link back."""
    groups = [
        (
            "Less precise",
            "Right if the compiler may compute less precisely. Not counted above.",
            REDUCED,
        ),
        ("Known already", "Marked as known. Not counted above.", KNOWN),
        ("Accepted", "Explained by a cause that is accepted here. Not counted above.", ACCEPTED),
        ("Flaky", "Did not fail in every run. Not counted above.", FLAKY),
        ("Fixed", "Marked as fixed, or gone on a replay.", FIXED),
    ]
    return (
        page_environment()
        .get_template("report.html")
        .render(
            report=report,
            sections=_by_severity(report.group(OPEN)),
            listed=sum(not bug.detailed for bug in report.bugs),
            apart=[(title, note, report.group(name)) for title, note, name in groups if report.group(name)],
            open_bugs=report.group(OPEN),
            clear=clearest(report.group(OPEN)),
            kinds=_kinds(report),
            most=max((count for row in report.matrix.values() for count in row.values()), default=0),
            home=home,
            aside=sum(len(report.group(name)) for name in (REDUCED, KNOWN, ACCEPTED, FLAKY)),
        )
    )


class PageWriter:
    """Writes the pages of single bugs beside a report."""

    def __init__(self, report: ReportView, name: str) -> None:
        made = page_environment()
        made.filters["python"] = str  # plain: to colour thousands of programs takes longer than all the rest
        self._template = made.get_template("page.html")
        self._common = {"report_name": name, "made": report.made}
        self.style = made.get_template("style.css").render()

    def page(self, bug: BugView) -> str:
        return self._template.render(bug=bug, **self._common)


def render_comparison(comparison: ComparisonView) -> str:
    return page_environment().get_template("compare.html").render(comparison=comparison)


def render_views(program: str, layers: Sequence[LayerView], matrices: Sequence[PairwiseView], driftline: str) -> str:
    """Return a page that shows layer-by-layer views and pairwise comparisons of targets."""
    found = {"program": program, "views": layers, "matrices": matrices, "driftline": driftline}
    return page_environment().get_template("views.html").render(**found)


def page_environment(*packages: str, layout: str = "base.html") -> Environment:
    """Return a template environment with the style and filters of all pages. `packages` are searched for templates too;
    `layout` names the base template.
    """
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "driftline.report")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_shown,
    )
    made.filters |= {
        "python": python,
        "draw": figures.draw,
        "draw_layers": draw_layers,
        "draw_growth": draw_growth,
        "sigma": size_of,
        "share": share_of,
        "sizes": sizes,
        "has_odd": figures.has_odd,
        "count": lambda number: f"{number:,}",
        "few": few,
        "duration": words.duration,
        "account": account,
        "moment": lambda text: text.replace("T", " ").removesuffix("Z") + (" UTC" if text.endswith("Z") else ""),
        "plural": words.plural,
        "blamed": words.blamed,
        "likeness": words.likeness,
        "top": lambda told: list(told.items())[:REASONS],
        "model_cells": model_cells,
        "wasted": wasted,
        "state": state,
        "address": urllib.parse.quote,
    }
    made.globals |= {"MODEL_HEAD": HEAD, "REASONS": REASONS, "UNFOLDED": UNFOLDED, "heat": heat, "anchor": anchor}
    made.globals["layout"] = layout
    return made


def _shown(value: Any) -> Any:
    """Convert a value for output: text loses control characters and is then escaped; our own markup is left
    unchanged.
    """
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def python(text: str) -> Markup:
    """Return highlighted Python. Spans that the style sheet does not colour are removed; long text is cut."""
    text = visible(text)
    cut = text if len(text) <= SCRIPT else text[:SCRIPT] + "\n# … cut here: too long for a page"
    return Markup(_UNSTYLED.sub(r"\1", highlight(cut, PythonLexer(), HtmlFormatter(nowrap=True))).rstrip("\n"))


def few(number: int) -> str:
    """Shorten a number to four characters."""
    return str(number) if number < 1000 else f"{number / 1000:.1f}k" if number < 10_000 else f"{number // 1000}k"


def state(counts: dict[str, int]) -> str:
    """Return the most important verdict in a cell of the coverage matrix, which decides the colour of the cell."""
    return next((v for v in ("fail", "pass", "inconclusive", "rejected", "invalid") if counts.get(v)), "none")


def _by_severity(bugs: tuple[BugView, ...]) -> list[tuple[str, list[BugView]]]:
    found: dict[str, list[BugView]] = {}
    for bug in sorted(bugs, key=lambda bug: bug.severity):
        found.setdefault(bug.severity_name, []).append(bug)
    return list(found.items())


def _kinds(report: ReportView) -> list[str]:
    """Return the kinds of bugs that occur, the worst first."""
    ranks: dict[str, int] = {}
    met = {kind for row in report.matrix.values() for kind, count in row.items() if count}
    for bug in report.bugs:
        if bug.kind in met:
            ranks[bug.kind] = min(bug.severity, ranks.get(bug.kind, bug.severity))
    return sorted(ranks, key=lambda kind: ranks[kind])


def heat(count: int, most: int) -> int:
    """Return the shade of a cell, 0 to 5. A single bug never has the darkest shade."""
    return 0 if not count else 1 + min(4, (count - 1) * 4 // max(most - 1, 4))


def anchor(bugs: tuple[BugView, ...], compiler: str, kind: str) -> Any:
    """Return the id of the first detailed bug of this compiler and kind, as a link target."""
    return next((bug.id for bug in bugs if bug.detailed and bug.compiler == compiler and bug.kind == kind), "glance")
