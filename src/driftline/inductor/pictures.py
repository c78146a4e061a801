"""Pictures of a difference: where it lies, how it grows with the values, and which channels have it.

Colour-blind safe (cividis), every axis labelled. Large tensors are thinned: of a block the largest error is drawn.
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


def draw_difference(expected: Any, got: Any, name: str, metrics: TensorMetrics) -> bytes:
    """A PNG with three pictures."""
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
    _by_channel(right, difference)
    shape = "x".join(map(str, metrics.shape)) or "a number"
    figure.suptitle(f"{name}: {metrics.dtype} {shape}, largest absolute difference {metrics.max_abs:.3g}")
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "driftline"}):
        figure.savefig(file, format="png", dpi=80, metadata={"Software": None})
    return file.getvalue()


def _shown(expected: Any, got: Any, metrics: TensorMetrics) -> tuple[Array, Array, str]:
    """Float64 arrays, and which part of the tensor they are."""
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
    plane, title = _plane(error)
    drawn = _thinned(np.where(np.isfinite(plane), plane, np.nan))
    if error.ndim < 2:
        line = _thinned(np.where(np.isfinite(error.reshape(1, -1)), error.reshape(1, -1), np.nan))[0]
        axes.plot(np.linspace(0, max(error.size - 1, 0), line.size), line, color="#00224e", linewidth=1)
        axes.set(xlabel="index", ylabel="absolute difference", title=f"Where ({where})")
        return
    image = axes.imshow(
        drawn, cmap="cividis", aspect="auto", interpolation="nearest",
        extent=(-0.5, plane.shape[1] - 0.5, plane.shape[0] - 0.5, -0.5),
    )  # fmt: skip
    figure.colorbar(image, ax=axes, label="absolute difference")
    axes.set(
        xlabel="index along the last axis", ylabel="index along the axis before", title=f"Where ({title or where})"
    )


def _plane(error: Array) -> tuple[Array, str]:
    """Two axes of the tensor: of more, the slice that holds the largest error."""
    if error.ndim < 2:
        return error.reshape(1, -1), ""
    if error.ndim == 2:
        return error, ""
    at = np.unravel_index(int(np.nanargmax(np.where(np.isfinite(error), error, -1.0))), error.shape)[:-2]
    place = ", ".join(str(int(i)) for i in at)
    return error[at], f"slice [{place}, :, :], which has the largest"


def _thinned(plane: Array) -> Array:
    """At most so many cells: each shows the largest error of its block."""
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
    axes.scatter(size[keep], difference[keep], s=9, color="#00224e", alpha=0.6, linewidths=0)
    axes.set(xscale="log", yscale="log")


def _by_channel(axes: Any, error: Array) -> None:
    axis = 1 if error.ndim > 2 else error.ndim - 1
    if error.ndim == 0:
        error, axis = error.reshape(1), 0
    finite = np.where(np.isfinite(error), error, 0.0)
    others = tuple(a for a in range(error.ndim) if a != axis)
    largest, mean = (finite.max(axis=others), finite.mean(axis=others)) if others else (finite, finite)
    at = np.arange(largest.size)
    if largest.size > _WIDEST:
        starts = np.arange(0, largest.size, math.ceil(largest.size / _WIDEST))
        largest, mean, at = np.maximum.reduceat(largest, starts), np.maximum.reduceat(mean, starts), starts
    axes.fill_between(at, largest, step="mid", color="#b9ac70", label="largest")
    axes.step(at, mean, where="mid", color="#00224e", label="mean")
    axes.set(xlabel=f"index along axis {axis}", ylabel="absolute difference", title="By channel")
    axes.legend(loc="upper right")
