"""The report as JSON: all of the view. The schema is in docs/json.md."""

from __future__ import annotations

from dataclasses import asdict

from driftline.core.text import to_json
from driftline.report.results import SCHEMA
from driftline.report.view import ComparisonView, ReportView


def render(report: ReportView) -> str:
    return to_json({"schema": SCHEMA, **asdict(report), "matrix": report.matrix}, indent=1) + "\n"


def render_comparison(comparison: ComparisonView) -> str:
    return to_json({"schema": SCHEMA, **asdict(comparison)}, indent=1) + "\n"
