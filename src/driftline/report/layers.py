"""Prepare a layer-by-layer view for renderers: plain values, a scale for errors, and the choice of rows to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log10
from typing import Any

from driftline.report.view import LayerRow, LayerView

ROWS = 40  # in a longer table, runs of similar rows are left out
BAR = 12
LOWEST, HIGHEST = 0.1, 1e9  # sigma: the ends of the scale
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def view_of(body: Mapping[str, Any]) -> LayerView:
    """Convert the stored JSON of a layer-by-layer view for renderers."""
    layers = tuple(
        LayerRow(
            number=int(layer["number"]),
            title=_title(layer),
            scope=str(layer["scope"]),
            op=str(layer["op"]),
            value=str(layer["value"]),
            node=str(layer["node"]),
            shape=tuple(layer["shape"]),
            dtype=str(layer["dtype"]),
            sigma=layer["sigma"],
            rms=layer["rms_sigma"],
            relative=layer["relative"],
            beyond=bool(layer["beyond"]),
            what=_what(str(layer["what"]), str(body["reference"])),
            own=layer["own_sigma"],
            own_beyond=layer["own_beyond"],
            output=bool(layer["output"]),
            end=bool(layer["end_of_block"]),
        )
        for layer in body["layers"]
    )
    return LayerView(
        target=str(body["target"]),
        program=str(body["program"]),
        reference=str(body["reference"]),
        verdict=str(body["verdict"]),
        band=float(body["band"]),
        first=body["first"],
        layers=layers,
        sentences=tuple(body["sentences"]),
        matched=str(body["matched"]),
    )


def _what(told: str, reference: str) -> str:
    """Reword a layer's text when two files are compared: the file may be to blame, not the compiler."""
    return told.replace("the compiler moved it", "it was moved") if reference else told


def _title(layer: Mapping[str, Any]) -> str:
    if layer["output"]:
        return f"output {layer['value']}"
    return str(layer["scope"] or layer["value"])


def share(sigma: float | None, *, beyond: bool = False) -> float:
    """Return the position of an error on the logarithmic scale, from 0 to 1. NaN and Inf stand at its end."""
    if sigma is None:
        return 1.0 if beyond else 0.0
    clipped = min(max(sigma, LOWEST), HIGHEST)
    return (log10(clipped) - log10(LOWEST)) / (log10(HIGHEST) - log10(LOWEST))


def bar(layer: LayerRow) -> str:
    """Return a bar of block characters whose length shows the error of a layer."""
    eighths = round(share(layer.sigma, beyond=layer.beyond) * BAR * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def size_of(value: float | None) -> str:
    """Format a number of sigma in few characters."""
    if value is None:
        return ""
    if value > HIGHEST:
        return ">" + _short(f"{HIGHEST:.0e}")
    if 0 < value < 0.001 or value >= 1000:
        return _short(f"{value:.1e}")
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def share_of(value: float | None) -> str:
    """Format a relative error with one digit and its power of ten."""
    if value is None:
        return ""
    return _short(f"{value:.0e}") if value else "0"


def _short(number: str) -> str:
    """Shorten `1.0e+03` to `1.0e3`."""
    digits, power = number.split("e")
    return f"{digits}e{int(power)}"


def sizes(shape: Sequence[int], between: str = "x") -> str:
    """Format a shape; unknown sizes become question marks."""
    return between.join("?" if size < 0 else str(size) for size in shape)


def common_module(view: LayerView) -> str:
    """Return the module that contains all named layers, so that its name need not be repeated in every row."""
    paths = [layer.scope.split(".") for layer in view.layers if layer.scope]
    shared: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1 or parts[0].isdigit():
            break
        shared.append(parts[0])
    if any(len(path) == len(shared) for path in paths):
        shared = shared[:-1]
    return ".".join(shared)


def abridged(view: LayerView) -> Iterator[LayerRow | str]:
    """Yield the rows. If there are too many, each run of three or more unremarkable rows is replaced by a line."""
    if len(view.layers) <= ROWS:
        yield from view.layers
        return
    waiting: list[LayerRow] = []
    for layer in view.layers:
        near = view.first is not None and abs(layer.number - view.first) <= 6
        if layer.end or layer.output or near or layer.own_beyond:
            yield from _line(waiting)
            waiting = []
            yield layer
        else:
            waiting.append(layer)
    yield from _line(waiting)


def _line(layers: Sequence[LayerRow]) -> Iterator[LayerRow | str]:
    if len(layers) < 3:
        yield from layers
        return
    beyond = sum(layer.beyond for layer in layers)
    worst = max((layer.sigma or 0.0 for layer in layers), default=0.0)
    told = f"{beyond} of them beyond the band" if beyond else "within the band"
    yield f"… {len(layers)} more, {told}, worst {size_of(worst)} sigma"
