"""The report as CSV: one row per bug, for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from driftline.report.view import Bug, Comparison, Report

COLUMNS = (
    "id", "group", "status", "severity", "compiler", "target", "versions", "kind", "stage", "title", "reason",
    "operators", "program", "output", "wrong_elements", "elements", "sightings", "first_seen", "last_seen", "blame",
    "known_title", "known_note", "known_url", "looks_like", "replay",
)  # fmt: skip


def render(report: Report) -> str:
    return _write(COLUMNS, ([*_row(bug)] for bug in report.bugs))


def render_comparison(comparison: Comparison) -> str:
    groups = (("new", comparison.new), ("fixed", comparison.fixed), ("still", comparison.still))
    rows = ([change, comparison.notes.get(bug.id, ""), *_row(bug)] for change, bugs in groups for bug in bugs)
    return _write(("change", "note", *COLUMNS), rows)


def _row(bug: Bug) -> list[object]:
    m = bug.mismatch
    return [
        bug.id, bug.group, bug.status, bug.severity_name, bug.compiler, bug.target, " ".join(bug.versions), bug.kind,
        bug.stage, bug.title, bug.reason, " ".join(bug.operators), bug.program, m.output if m else "",
        m.wrong if m and m.size else "", m.size if m and m.size else "", bug.sightings, bug.first_seen, bug.last_seen,
        bug.blame, bug.known_title, bug.known_note, bug.known_url, bug.like.bug if bug.like else "", bug.replay,
    ]  # fmt: skip


def _write(head: Iterable[str], rows: Iterable[list[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()
