"""The result of a check as a small HTML table, which notebooks show in place of its `repr`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from driftline.core.text import first_line
from driftline.core.verdict import Judgement

if TYPE_CHECKING:
    from driftline.checking.result import CheckResult

_COLOURS = {
    Judgement.PASS: "#1a7f37",
    Judgement.FAIL: "#cf222e",
    Judgement.REDUCED: "#0969da",
    Judgement.INCONCLUSIVE: "#9a6700",
    Judgement.REJECTED: "#6e7781",
}
_HEAD = ("target", "version", "verdict", "what was seen")


def check_html(result: CheckResult) -> str:
    """Return a table with a row for each target, then the notes and the bugs."""
    body = [
        _row(str(row.target), row.execution.version, row.verdict.judgement, row.verdict.reason)
        for row in result.results
    ]
    body += [_row(str(row.target), "", None, row.reason) for row in result.outcome.skipped]
    head = "".join(f'<th style="text-align:left">{name}</th>' for name in _HEAD)
    notes = "".join(f"<p>{escape(note)}</p>" for note in result.notes)
    bugs = "".join(
        f"<li><code>{escape(bug.id)}</code> {escape(first_line(bug.summary, 200))}</li>"
        for bug in {bug.id: bug for bug in result.bugs.values()}.values()
    )
    return (
        f"<div><strong>{escape(result.outcome.case.runs.name)}</strong>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{notes}"
        + (f"<ul>{bugs}</ul>" if bugs else "")
        + "</div>"
    )


def _row(target: str, version: str, judgement: Judgement | None, reason: str) -> str:
    colour = _COLOURS[judgement] if judgement else _COLOURS[Judgement.REJECTED]
    cells = (
        f"<code>{escape(target)}</code>",
        escape(version),
        f'<span style="color:{colour};font-weight:bold">{judgement or "skipped"}</span>',
        escape(first_line(reason, 400)),
    )
    return "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"
