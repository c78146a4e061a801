"""Draws pictures of a difference: where it lies, how it grows with the values, and which channels have it.

Colour-blind safe (cividis), every axis labelled. Large tensors are thinned: of a block the largest error is drawn. A
tensor of one dimension has no channels: there the third picture shows how many elements differ by how much.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Array
from driftline.oracle.metrics import TensorMetrics
from driftline.programs.live import to_array

_WIDEST = 512  # cells of a heat map in each direction
_POINTS = 20_000
_LARGEST = 1 << 24  # elements; of a larger tensor only the slice with the worst error is drawn
_FEW = 40  # elements that are drawn one by one
_DARK, _LIGHT = "#00224e", "#b9ac70"


def draw_difference(expected: Any, got: Any, name: str, metrics: TensorMetrics) -> bytes:
    """Return a PNG with three pictures."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DriftlineError("Pictures need matplotlib: pip install 'driftline[lab]'.") from error
    want, have, where = _shown(expected, got, metrics)
    difference = np.abs(have - want)
    figure = Figure(figsize=(16, 4.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _heat_map(figure, left, difference, where)
    _against_magnitude(middle, want, difference)
    if difference.ndim < 2:
        _counts(right, difference)
    else:
        _by_channel(right, difference)
    shape = f"of shape {'x'.join(map(str, metrics.shape))}" if metrics.shape else "number"
    odd = f"; {metrics.nonfinite_mismatched} differ in NaN or Inf" if metrics.nonfinite_mismatched else ""
    figure.suptitle(f"{name}: {metrics.dtype} {shape}, largest absolute difference {metrics.max_abs:.3g}{odd}")
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "driftline"}):
        figure.savefig(file, format="png", dpi=80, metadata={"Software": None})
    return file.getvalue()


def _shown(expected: Any, got: Any, metrics: TensorMetrics) -> tuple[Array, Array, str]:
    """Return both tensors as float64 arrays, cut to a part if they are large, and a description of that part."""
    where = "all elements"
    if metrics.size > _LARGEST and len(metrics.shape) > 1:
        at = (metrics.worst or (0,) * len(metrics.shape))[:-2] if len(metrics.shape) > 2 else ()
        rows = slice(None)
        if not at:
            worst = metrics.worst[0] if metrics.worst else 0
            rows = slice(max(worst - 256, 0), worst + 256)
        expected, got = expected[(*at, rows)], got[(*at, rows)]
        where = f"the part around the largest difference, at {metrics.worst}"
    elif metrics.size > _LARGEST:
        worst = metrics.worst[0] if metrics.worst else 0
        part = slice(max(worst - _LARGEST // 2, 0), worst + _LARGEST // 2)
        expected, got = expected[part], got[part]
        where = f"{_LARGEST:,} elements around the largest difference"
    values = [to_array(v) if hasattr(v, "shape") else np.asarray(v) for v in (expected, got)]
    wide = [np.abs(v) if v.dtype.kind == "c" else v.astype(np.float64) for v in values]
    with np.errstate(all="ignore"):
        return wide[0], wide[1], where


def _heat_map(figure: Any, axes: Any, error: Array, where: str) -> None:
    if error.ndim < 2:
        _line(axes, error.reshape(-1), where)
        return
    plane, title = _plane(error)
    drawn = _thinned(np.where(np.isfinite(plane), plane, np.nan))
    axes.set_facecolor("#ffffff")  # the colour of elements that are NaN or infinite on one side
    image = axes.imshow(
        drawn, cmap="cividis", aspect="auto", interpolation="nearest", vmin=0.0,
        vmax=float(np.nanmax(drawn, initial=0.0)) or 1.0,
        extent=(-0.5, plane.shape[1] - 0.5, plane.shape[0] - 0.5, -0.5),
    )  # fmt: skip
    figure.colorbar(image, ax=axes, label="absolute difference")
    axes.set(
        xlabel="index along the last axis", ylabel="index along the axis before", title=f"Where ({title or where})"
    )
    _whole_numbers(axes.xaxis, axes.yaxis)


def _line(axes: Any, error: Array, where: str) -> None:
    """Draw the error along one axis: bars for a few elements, else a line."""
    finite = np.where(np.isfinite(error), error, np.nan)
    if error.size <= _FEW:
        axes.bar(np.arange(error.size), finite, color=_DARK, width=0.7)
        axes.set_xlim(-1, max(error.size, 1))
    else:
        line = _thinned(finite.reshape(1, -1))[0]
        axes.plot(np.linspace(0, error.size - 1, line.size), line, color=_DARK, linewidth=1)
    axes.set(xlabel="index", ylabel="absolute difference", title=f"Where ({where})")
    _whole_numbers(axes.xaxis)


def _whole_numbers(*scales: Any) -> None:
    """Put ticks of these axes at integers: they are indices or counts."""
    from matplotlib.ticker import MaxNLocator

    for scale in scales:
        scale.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _plain_powers(*scales: Any) -> None:
    """On logarithmic axes, label the powers of ten only."""
    from matplotlib.ticker import NullFormatter

    for scale in scales:
        scale.set_minor_formatter(NullFormatter())


def _plane(error: Array) -> tuple[Array, str]:
    """Return two axes of the tensor: for a higher rank, the slice with the largest error, and its description."""
    if error.ndim == 2:
        return error, ""
    at = np.unravel_index(int(np.nanargmax(np.where(np.isfinite(error), error, -1.0))), error.shape)[:-2]
    place = ", ".join(str(int(i)) for i in at)
    return error[at], f"slice [{place}, :, :], which has the largest"


def _thinned(plane: Array) -> Array:
    """Return the plane reduced to at most `_WIDEST` cells per axis, each the largest error of its block."""
    for axis in (0, 1):
        step = math.ceil(plane.shape[axis] / _WIDEST)
        if step > 1:
            starts = np.arange(0, plane.shape[axis], step)
            plane = np.fmax.reduceat(plane, starts, axis=axis)
    return plane


def _against_magnitude(axes: Any, want: Array, error: Array) -> None:
    size, difference = np.abs(want).reshape(-1), error.reshape(-1)
    keep = np.flatnonzero(np.isfinite(size) & np.isfinite(difference) & (difference > 0) & (size > 0))
    if keep.size > _POINTS:
        worst = keep[np.argsort(difference[keep])[-_POINTS // 10 :]]
        keep = np.union1d(keep[:: keep.size // _POINTS + 1], worst)
    axes.set(xlabel="magnitude of the expected value", ylabel="absolute difference", title="Against magnitude")
    if not keep.size:
        axes.text(0.5, 0.5, "no finite element differs", ha="center", va="center", transform=axes.transAxes)
        return
    many = keep.size > _FEW
    axes.scatter(size[keep], difference[keep], s=9 if many else 30, color=_DARK, alpha=0.6 if many else 1, linewidths=0)
    axes.set(xscale="log", yscale="log", xlim=_decades(size[keep]), ylim=_decades(difference[keep]))
    _plain_powers(axes.xaxis, axes.yaxis)


def _decades(values: Array) -> tuple[float, float]:
    """Return the powers of ten below and above positive numbers."""
    return 10.0 ** math.floor(math.log10(values.min()) - 0.1), 10.0 ** math.ceil(math.log10(values.max()) + 0.1)


def _counts(axes: Any, error: Array) -> None:
    """Draw a histogram: how many elements differ by how much."""
    finite = error[np.isfinite(error)].reshape(-1)
    differing = finite[finite > 0]
    axes.set(xlabel="absolute difference", ylabel="elements", title=f"How many ({finite.size - differing.size} equal)")
    if not differing.size:
        axes.text(0.5, 0.5, "no finite element differs", ha="center", va="center", transform=axes.transAxes)
        return
    low, high = _decades(differing)
    axes.hist(differing, bins=np.geomspace(low, high, 31), color=_LIGHT, edgecolor=_DARK, linewidth=0.5)
    axes.set(xscale="log", xlim=(low, high))
    _plain_powers(axes.xaxis)
    _whole_numbers(axes.yaxis)


def _by_channel(axes: Any, error: Array) -> None:
    axis = 1 if error.ndim > 2 else error.ndim - 1
    finite = np.where(np.isfinite(error), error, 0.0)
    others = tuple(a for a in range(error.ndim) if a != axis)
    largest, mean = finite.max(axis=others), finite.mean(axis=others)
    at = np.arange(largest.size)
    if largest.size > _WIDEST:
        starts = np.arange(0, largest.size, math.ceil(largest.size / _WIDEST))
        largest, mean, at = np.maximum.reduceat(largest, starts), np.maximum.reduceat(mean, starts), starts
    if largest.size <= _FEW:
        axes.bar(at, largest, color=_LIGHT, width=0.8, label="largest")
        axes.bar(at, mean, color=_DARK, width=0.4, label="mean")
    else:
        axes.fill_between(at, largest, step="mid", color=_LIGHT, label="largest")
        axes.step(at, mean, where="mid", color=_DARK, label="mean")
    axes.set(xlabel=f"index along axis {axis}", ylabel="absolute difference", title="By channel")
    _whole_numbers(axes.xaxis)
    axes.set_ylim(0.0, 1.2 * float(largest.max(initial=0.0)) or 1.0)  # with room for the legend
    axes.legend(loc="upper right", ncols=2)
