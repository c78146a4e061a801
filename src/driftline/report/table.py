"""The report as CSV: one row per bug, for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from driftline.core.quoting import spreadsheet
from driftline.report.view import BugView, ComparisonView, ReportView

COLUMNS = (
    "id", "group", "status", "severity", "compiler", "target", "versions", "kind", "stage", "title", "reason",
    "operators", "program", "output", "wrong_elements", "elements", "sightings", "first_seen", "last_seen", "blame",
    "causes", "reported", "debatable", "looks_like", "replay",
)  # fmt: skip


def render(report: ReportView) -> str:
    return _write(COLUMNS, ([*_row(bug)] for bug in report.bugs))


def render_comparison(comparison: ComparisonView) -> str:
    groups = (("new", comparison.new), ("fixed", comparison.fixed), ("still", comparison.still))
    rows = ([change, comparison.notes.get(bug.id, ""), *_row(bug)] for change, bugs in groups for bug in bugs)
    return _write(("change", "note", *COLUMNS), rows)


def _row(bug: BugView) -> list[object]:
    m = bug.mismatch
    return [
        bug.id, bug.group, bug.status, bug.severity_name, bug.compiler, bug.target, " ".join(bug.versions), bug.kind,
        bug.stage, bug.title, bug.reason, " ".join(bug.spelled), bug.program, m.output if m else "",
        m.wrong if m and m.size else "", m.size if m and m.size else "", bug.sightings, bug.first_seen, bug.last_seen,
        bug.blame, " ".join(cause.id for cause in bug.causes), " ".join(cause.reported for cause in bug.causes),
        bug.debated, bug.like.bug if bug.like else "", bug.replay,
    ]  # fmt: skip


def _write(head: Iterable[str], rows: Iterable[list[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([spreadsheet(value) for value in row] for row in rows)
    return text.getvalue()
