"""Draw a layer-by-layer view: error in sigma on a logarithmic scale along the graph, with the legal band shaded.

Inline SVG, coloured by the page's style sheet; a layer shows its name and numbers when the pointer is on it.
"""

from __future__ import annotations

import math

from markupsafe import Markup, escape

from driftline.core.quoting import visible
from driftline.report.layers import HIGHEST, LOWEST, share, size_of, sizes
from driftline.report.view import LayerRow, LayerView

WIDTH, HEIGHT = 520, 210
LEFT, RIGHT, TOP, BOTTOM = 40, 10, 30, 182
POWERS = range(round(math.log10(LOWEST)), round(math.log10(HIGHEST)) + 1)


def draw_layers(view: LayerView) -> Markup:
    """Draw the error of each layer along the graph."""
    if not view.layers:
        return Markup("")
    top = _top(view)
    step = (WIDTH - LEFT - RIGHT) / len(view.layers)
    places = [LEFT + (at + 0.5) * step for at in range(len(view.layers))]

    def y(layer_sigma: float | None, beyond: bool) -> float:
        return round(BOTTOM - min(1.0, share(layer_sigma, beyond=beyond) / top) * (BOTTOM - TOP), 1)

    edge = y(view.band, False)
    parts = [f'<rect class="band" x="{LEFT}" y="{edge:g}" width="{WIDTH - LEFT - RIGHT}" height="{BOTTOM - edge:g}"/>']
    for power in POWERS:
        at = y(10.0**power, False)
        if share(10.0**power) <= top and power % (1 if top < 0.55 else 2) == 0:
            parts.append(f'<path class="grid" d="M{LEFT} {at:g}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{at + 3.5:g}" text-anchor="end">{_power(power)}</text>')
    parts.append(f'<path class="limit" d="M{LEFT} {edge:g}H{WIDTH - RIGHT}"/>')
    parts.append(f'<path class="axis" d="M{LEFT} {BOTTOM}H{WIDTH - RIGHT}"/>')
    heights = [y(layer.sigma, layer.beyond) for layer in view.layers]
    line = "".join(
        f"{'L' if at else 'M'}{x:.4g} {height:g}" for at, (x, height) in enumerate(zip(places, heights, strict=True))
    )
    parts.append(f'<path class="trend" d="{line}"/>')
    parts += [_hit(view, at, places[at], step, heights[at], y) for at in range(len(view.layers))]
    parts += _first(view, places)
    parts.append(f'<text x="0" y="{TOP - 12}">sigma</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 12}">first layer</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 12}" text-anchor="end">result</text>')
    label = escape(
        visible(f"Error of each layer in sigma of legal rounding, on a logarithmic scale. {view.sentences[0]}")
    )
    return Markup(
        f'<svg class="plot wide" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _hit(view: LayerView, at: int, x: float, step: float, height: float, y: object) -> str:
    """Draw a layer: its dot, the error it makes alone, and a column with a tooltip."""
    layer = view.layers[at]
    kind = "first" if layer.number == view.first else "beyond" if layer.beyond else "within"
    radius = 4 if kind == "first" else 3 if step >= 5 else 2
    own = ""
    if layer.own_beyond is not None:
        own = f'<circle class="own" cx="{x:.4g}" cy="{y(layer.own, layer.own_beyond):g}" r="{radius + 1.5:g}"/>'  # type: ignore[operator]
    return (
        f'<g class="layer"><title>{escape(told(layer))}</title>'
        f'<rect class="column" x="{x - step / 2:.4g}" y="{TOP}" width="{step:.4g}" height="{BOTTOM - TOP}"/>'
        f'<circle class="{kind}" cx="{x:.4g}" cy="{height:g}" r="{radius}"/>{own}</g>'
    )


def told(layer: LayerRow) -> str:
    """Describe a layer in full, one fact per line."""
    number = "" if layer.output else f"{layer.number}: "
    lines = [f"{number}{layer.title}" + (f" ({layer.op})" if layer.op else "")]
    if layer.value != layer.title and not layer.output:
        lines.append(f"value {layer.value}" + (f", node {layer.node}" if layer.node not in ("", layer.value) else ""))
    lines.append(f"{layer.dtype}[{sizes(layer.shape, ', ')}]")
    if layer.sigma is not None:
        relative = f", relative {layer.relative:.1e}" if layer.relative is not None else ""
        lines.append(f"off by {size_of(layer.sigma)} sigma at worst, {size_of(layer.rms)} rms{relative}")
    if layer.what:
        lines.append(layer.what[:200])
    if layer.own_beyond is not None:
        size = f" ({size_of(layer.own)} sigma)" if layer.own is not None else ""
        lines.append(f"alone, on the values of the reference: {'wrong' if layer.own_beyond else 'right'}{size}")
    return visible("\n".join(lines))


def _first(view: LayerView, places: list[float]) -> list[str]:
    """Draw the mark and the name of the first layer beyond the band."""
    at = next((at for at, layer in enumerate(view.layers) if layer.number == view.first), None)
    if at is None:
        return []
    x, layer = places[at], view.layers[at]
    name = f"{layer.title}: {layer.op}" if layer.op else layer.title
    short = visible(name if len(name) <= 44 else f"…{name[-43:]}")
    side = "start" if x < WIDTH / 2 else "end"
    return [
        f'<path class="mark" d="M{x:.4g} {TOP - 6}V{BOTTOM}"/>',
        f'<text class="name" x="{max(x, LEFT):.4g}" y="{TOP - 12}" text-anchor="{side}">{escape(short)}</text>',
    ]


def _top(view: LayerView) -> float:
    """Return the share of the scale that is drawn: a little more than the worst error needs, and at least some room
    above the band.
    """
    worst = max(share(layer.sigma, beyond=layer.beyond) for layer in view.layers)
    return min(1.0, max(worst + 0.03, share(100.0)))


def _power(power: int) -> str:
    if -1 <= power <= 3:
        return f"{10.0**power:g}" if power < 3 else "1,000"
    return f'10<tspan dy="-4" font-size="8">{power}</tspan>'
