"""Draw error maps as inline SVG. The page's style sheet sets the colours, so the pictures follow dark mode."""

from __future__ import annotations

import math
from collections import defaultdict

from markupsafe import Markup

from driftline.report.view import ErrorMap

WIDTH = 440
LEVELS = 5


def draw(errors: ErrorMap) -> Markup:
    """Draw bars for a vector, a heat map for a matrix."""
    return _bars(errors) if errors.rows == 1 else _cells(errors)


def _bars(errors: ErrorMap) -> Markup:
    left, top, bottom, height = 46, 14, 118, 136
    low, high = _range(errors)

    def y(value: float) -> float:
        share = (math.log10(max(value, 10**low)) - low) / (high - low)
        return round(bottom - share * (bottom - top), 1)

    step = (WIDTH - left - 6) / errors.columns
    paths: dict[str, list[str]] = defaultdict(list)
    for number, error in enumerate(errors.cells):
        x = round(left + (number + 0.5) * step, 1)
        if error is None:
            paths["odd"].append(f"M{x:g} {bottom}V{top}")
        elif error > 0:
            paths["bad" if error > errors.limit else "fine"].append(f"M{x:g} {bottom}V{min(y(error), bottom - 1):g}")
    stroke = max(1.0, round(step * 0.7, 1)) if step < 24 else 16
    parts = [f'<path class="{name}" stroke-width="{stroke:g}" d="{"".join(d)}"/>' for name, d in paths.items()]
    ticks = range(math.ceil(low), math.floor(high) + 1)
    every = max(1, len(ticks) // 4)
    for power in list(ticks)[::every]:
        parts.append(f'<text x="{left - 6}" y="{y(10.0**power) + 3:g}" text-anchor="end">{_power(power)}</text>')
        parts.append(f'<path class="grid" d="M{left} {y(10.0**power):g}H{WIDTH - 6}"/>')
    if 10**low < errors.limit < 10**high and errors.limit > 1:
        parts.append(f'<path class="limit" d="M{left} {y(errors.limit):g}H{WIDTH - 6}"/>')
    parts.append(f'<path class="axis" d="M{left} {bottom}H{WIDTH - 6}"/>')
    parts.append(f'<text x="{left}" y="{height - 4}">first element</text>')
    parts.append(f'<text x="{WIDTH - 6}" y="{height - 4}" text-anchor="end">last</text>')
    return _svg(parts, height, "Error of each element, on a logarithmic scale")


def _cells(errors: ErrorMap) -> Markup:
    width = WIDTH / errors.columns
    size = min(width, 14.0 if errors.rows > 4 else 22.0)
    wide = min(width, 2.2 * size)
    top = 2
    _, high = _range(errors)
    start = math.log10(errors.limit) if errors.limit > 0 else 0.0
    paths: dict[str, list[str]] = defaultdict(list)
    for row in range(errors.rows):
        column = 0
        while column < errors.columns:
            level = _level(errors, row * errors.columns + column, start, high)
            run = 1
            while (
                column + run < errors.columns
                and _level(errors, row * errors.columns + column + run, start, high) == level
            ):
                run += 1
            paths[level].append(
                f"M{column * wide:.4g} {top + row * size:.4g}h{run * wide:.4g}v{size:.4g}h-{run * wide:.4g}z"
            )
            column += run
    parts = [f'<path class="{level}" d="{"".join(d)}"/>' for level, d in sorted(paths.items())]
    parts.append(
        f'<path class="frame" d="M0 {top}h{errors.columns * wide:.4g}v{errors.rows * size:.4g}'
        f'h-{errors.columns * wide:.4g}z"/>'
    )
    return _svg(parts, top + errors.rows * size + 2, "Where the output is wrong, by row and column")


def _level(errors: ErrorMap, index: int, start: float, high: float) -> str:
    error = errors.cells[index]
    if error is None:
        return "h-odd"
    if error <= errors.limit:
        return "h0"
    share = (math.log10(error) - start) / max(high - start, 1e-9)
    return f"h{min(LEVELS, 1 + int(share * LEVELS))}"


def has_odd(errors: ErrorMap) -> bool:
    """True if an element is NaN or infinite where it should not be."""
    return any(cell is None for cell in errors.cells)


def _range(errors: ErrorMap) -> tuple[float, float]:
    """Return the exponents of ten at the ends of the scale, from below the limit to above the largest error."""
    sizes = [math.log10(cell) for cell in errors.cells if cell]
    high = max([*sizes, math.log10(max(errors.limit, 1.0)) + 0.3])
    low = min(0.0, max(min([*sizes, 0.0]), -2.0))
    return math.floor(low) - 0.2, math.ceil(high) + 0.1


def _power(power: int) -> str:
    if 0 <= power <= 3:
        return f"{10**power:,}"
    return f'10<tspan dy="-4" font-size="8">{str(power).replace("-", "&minus;")}</tspan>'


def _svg(parts: list[str], height: float, label: str) -> Markup:
    return Markup(
        f'<svg class="plot" viewBox="0 0 {WIDTH} {height:.4g}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )
