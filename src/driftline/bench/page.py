"""Write a run as one offline page: a bar for each speed-up, with its interval and the noise of the machine, and the
table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from driftline.bench.result import BenchModel, BenchRow, BenchRun
from driftline.bench.runner import FASTER, SLOWER
from driftline.bench.text import filled, judged_words, notes
from driftline.core.quoting import visible
from driftline.measure.words import times

_WIDTH, _LEFT, _RIGHT, _ROW = 760, 190, 190, 26
_CLASSES = {FASTER: "good", SLOWER: "bad"}


def run_page(run: BenchRun) -> str:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("driftline.bench"), PackageLoader("driftline.report")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_shown,
    )
    models = [_model(run, model) for model in run.models]
    return environment.get_template("bench.html").render(run=run, models=models)


def _shown(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _model(run: BenchRun, model: BenchModel) -> dict[str, Any]:
    rows = run.rows_of(model.name)
    columns, shown = filled(rows)
    return {
        "name": model.name,
        "words": model.words,
        "bars": bars(rows, [run.noise_of(row) for row in rows]),
        "columns": columns,
        "rows": [
            {"cells": cells, "state": _CLASSES.get(row.conclusion, "")} for row, cells in zip(rows, shown, strict=True)
        ],
        "notes": [*judged_words(model), *notes(rows)],
    }


def bars(rows: Sequence[BenchRow], floors: Sequence[float]) -> Markup:
    """Draw the speed-ups on a logarithmic scale around 1, the speed of eager. The shaded band is the noise."""
    shown = [(row, floor) for row, floor in zip(rows, floors, strict=True) if row.speedup]
    if not shown:
        return Markup("")
    reach = max(2.0, *(max(row.speedup.high, 1 / row.speedup.low) for row, _ in shown if row.speedup))
    middle, half = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2, (_WIDTH - _LEFT - _RIGHT) / 2

    def x(ratio: float) -> float:
        return round(middle + half * math.log(ratio) / math.log(reach), 1)

    height = _ROW * len(shown) + 28
    parts = []
    for at, (row, floor) in enumerate(shown):
        assert row.speedup
        top, estimate = 20 + at * _ROW, row.speedup
        left, right = sorted((x(1.0), x(estimate.value)))
        width = max(right - left, 1.0)
        state = _CLASSES.get(row.conclusion, "same")
        parts += [
            f'<rect class="noise" x="{x(1 / floor)}" y="{top}" width="{x(floor) - x(1 / floor):.1f}" height="{_ROW}"/>',
            f'<rect class="bar {state}" x="{left}" y="{top + 5}" width="{width:.1f}" height="{_ROW - 10}"/>',
            f'<path class="whisker" d="M{x(estimate.low)} {top + _ROW / 2}H{x(estimate.high)}"/>',
            f'<text x="{_LEFT - 10}" y="{top + 17}" text-anchor="end">{escape(visible(_short(row.target)))}</text>',
            f'<text x="{_WIDTH - _RIGHT + 10}" y="{top + 17}">{times(estimate)}</text>',
        ]
    bottom = 20 + _ROW * len(shown)
    for ratio, anchor in ((1 / reach, "start"), (1.0, "middle"), (reach, "end")):
        parts.append(f'<path class="axis" d="M{x(ratio)} 16V{bottom}"/>')
        parts.append(f'<text class="tick" x="{x(ratio)}" y="11" text-anchor="{anchor}">{ratio:.2g}x</text>')
    label = escape(f"Speed-up of {len(shown)} targets against eager, with intervals.")
    return Markup(
        f'<svg class="bars" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _short(target: str) -> str:
    return target if len(target) <= 26 else f"{target[:25]}…"
