"""Pictures of a run: instabilities by model, frameworks against models, and the worst errors.

Colours are those of Okabe and Ito, which people with any kind of colour vision can distinguish. Bars also have hatches,
and points have different markers.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.quoting import one_line
from driftline.instabilities.records import ModelRecord, RuntimeRecord
from driftline.instabilities.summary import frameworks_of, instability

MOST = 40  # models in a picture: the least stable ones
NAN, INF, ERROR = "#D55E00", "#0072B2", "#000000"
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
_MARKERS = "os^DvPX*"
_NAMED, _LISTED = 80, 12  # models that have room for their names; names that a corner has room for
_LEAST, _MOST = 1e-9, 1e3  # relative errors beyond are drawn there


def new_figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DriftlineError("Pictures need matplotlib: pip install 'driftline[lab]'.") from error
    return Figure(figsize=(width, height), layout="constrained")


def as_png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
    return file.getvalue()


def _worst(records: Sequence[ModelRecord]) -> list[ModelRecord]:
    return sorted((one for one in records if one.runtimes), key=instability, reverse=True)[:MOST]


def _title(words: str, run: str, shown: int, of: int) -> str:
    some = f", the {shown} least stable of {of} models" if shown < of else ""
    return f"{words} ({run}{some})"


def draw_bars(records: Sequence[ModelRecord], run: str) -> bytes:
    """Draw, for each model, how many elements are NaN or infinite and how many runs end in an error, over all
    frameworks."""
    shown = _worst(records)[::-1]
    at = np.arange(len(shown))
    figure = new_figure(9, 1.6 + 0.24 * len(shown))
    axes = figure.subplots()
    left = np.zeros(len(shown))
    parts = (
        ("NaN", NAN, "", [sum(one.total("nan") for one in record.runtimes) for record in shown]),
        ("Inf", INF, "///", [sum(one.total("inf") for one in record.runtimes) for record in shown]),
        ("errors", ERROR, "", [sum(one.errors for one in record.runtimes) for record in shown]),
    )
    for label, colour, hatch, counts in parts:
        axes.barh(at, counts, left=left, color=colour, hatch=hatch, edgecolor="white", linewidth=0, label=label)
        left = left + np.array(counts)
    axes.set_yticks(at, [record.expression or record.model for record in shown], fontsize=8)
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel("elements that are NaN or infinite, and runs that end in an error; all frameworks and inputs")
    axes.set_title(_title("Instabilities by model", run, len(shown), len(records)), fontsize=11)
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(0, 1.04 * max(1.0, float(left.max(initial=0.0))))
    return as_png(figure)


def draw_heat_map(records: Sequence[ModelRecord], run: str) -> bytes:
    """Draw the share of elements that are NaN, infinite or far from float64, for each framework and model."""
    shown, frameworks = _worst(records), frameworks_of(records)
    share = np.full((len(shown), len(frameworks)), np.nan)
    for row, record in enumerate(shown):
        for one in record.runtimes:
            share[row, frameworks.index(one.framework)] = _share(one)
    figure = new_figure(3.6 + 0.9 * len(frameworks), 2.0 + 0.22 * len(shown))
    axes = figure.subplots()
    import matplotlib

    # The middle of the colours is grey, so cells without a run are hatched, and lines separate the cells.
    axes.patch.set(facecolor="white", hatch="////", edgecolor="#999999")
    colours = matplotlib.colormaps["cividis"].with_extremes(bad="#ffffff00")
    image = axes.imshow(np.ma.masked_invalid(share), cmap=colours, vmin=0, vmax=100, aspect="auto")
    axes.set_xticks(range(len(frameworks)), frameworks, rotation=30, ha="right")
    axes.set_yticks(range(len(shown)), [record.expression or record.model for record in shown], fontsize=8)
    axes.set_xticks(np.arange(0.5, len(frameworks) - 1), minor=True)
    axes.set_yticks(np.arange(0.5, len(shown) - 1), minor=True)
    axes.grid(which="minor", color="white", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
    wrong = [
        (frameworks.index(one.framework), row)
        for row, record in enumerate(shown)
        for one in record.runtimes
        if one.verdict == "fail"
    ]
    if wrong:
        axes.scatter(*zip(*wrong, strict=True), marker="x", s=38, color="white", linewidths=2.6)
        axes.scatter(*zip(*wrong, strict=True), marker="x", s=32, color=NAN, linewidths=1.4, label="wrong (the oracle)")
        figure.legend(loc="outside lower left", frameon=False)
    figure.colorbar(image, ax=axes, label="% of elements NaN, infinite,\nor far from float64 (hatched: not run)")
    axes.set_title(_title("Frameworks and models", run, len(shown), len(records)), fontsize=10, wrap=True)
    return as_png(figure)


def _share(one: RuntimeRecord) -> float:
    """Return the percentage of unstable elements, or NaN if there is no result."""
    elements = one.total("elements")
    unstable = sum(
        max(row.counts.nan + row.counts.inf, row.counts.disagreements) for row in one.rows if row.outcome == "ok"
    )
    return 100.0 * min(1.0, unstable / elements) if elements else float("nan")


def _name_models(axes: Any, shown: Sequence[ModelRecord]) -> None:
    """Label each model on the x axis if there is room. Otherwise list the worst models in the top left corner, which is
    empty because models are sorted by their worst error."""
    names = [one_line(record.expression or record.model, 48) for record in shown]
    if len(shown) <= _NAMED:
        axes.set_xticks(range(len(shown)), names, rotation=90, fontsize=7)
    else:
        axes.set_xticks([])
        worst = "\n".join(["the worst, from the right:", *reversed(names[-_LISTED:])])
        axes.text(0.01, 0.97, worst, fontsize=7, va="top", transform=axes.transAxes)


def draw_errors(records: Sequence[ModelRecord], run: str) -> bytes:
    """Draw the worst relative error of each model on each framework, with the models sorted by their worst error."""
    frameworks = frameworks_of(records)
    shown = sorted(
        (one for one in records if one.runtimes), key=lambda record: max(o.worst_error for o in record.runtimes)
    )
    figure = new_figure(min(20.0, 8 + 0.05 * len(shown)), 5.2)
    axes = figure.subplots()
    spread = 0.7 / max(1, len(frameworks))  # points of one model stand side by side
    for number, name in enumerate(frameworks):
        points = [
            (at + (number - (len(frameworks) - 1) / 2) * spread, float(np.clip(one.worst_error, _LEAST, _MOST)))
            for at, record in enumerate(shown)
            for one in record.runtimes
            if one.framework == name and one.total("elements")
        ]
        if points:
            axes.scatter(
                *zip(*points, strict=True), s=18, linewidths=0, color=PALETTE[number % len(PALETTE)],
                marker=_MARKERS[number % len(_MARKERS)], label=name,
            )  # fmt: skip
    axes.axhline(1e-2, color="#666666", linewidth=0.8, linestyle="--")
    axes.text(1.0, 1.3e-2, "1 %", color="#444444", fontsize=8, ha="right", transform=axes.get_yaxis_transform())
    axes.set_yscale("log")
    axes.set_ylabel("worst relative error against float64 (finite elements)")
    _name_models(axes, shown)
    axes.set_xlabel(
        f"{len(shown)} models, by their worst error; exact results stand at the lowest tick, others end at {_MOST:g}"
    )
    axes.set_ylim(_LEAST / 3, _MOST * 3)
    axes.set_title(f"Worst errors ({run})", fontsize=11, loc="left")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    figure.legend(loc="outside upper right", ncols=len(frameworks), frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return as_png(figure)
