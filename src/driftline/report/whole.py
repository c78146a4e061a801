"""The report as JSON: all of the view. The schema is in docs/json.md."""

from __future__ import annotations

from dataclasses import asdict

from driftline.core.text import to_json
from driftline.report.results import SCHEMA
from driftline.report.view import Comparison, Report


def render(report: Report) -> str:
    return to_json({"schema": SCHEMA, **asdict(report), "matrix": report.matrix}, indent=1) + "\n"


def render_comparison(comparison: Comparison) -> str:
    return to_json({"schema": SCHEMA, **asdict(comparison)}, indent=1) + "\n"
