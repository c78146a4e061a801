"""Draw where in its input space a two-input model breaks, on each framework.

Both inputs run over all finite floats, evenly spaced by ordinal, so that tiny and huge numbers get the same share of
the map. Each point of the map is one row of the inputs, filled with the two numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from driftline.checking.batch_requests import InvalidProgram
from driftline.checking.open import LoadedProgram, open_program
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.tensors import Array, Arrays, is_float
from driftline.core.text import did_you_mean
from driftline.execute.pool import Pool
from driftline.execute.shelf import load_samples, save_samples
from driftline.inputs.symbolic.formats import FORMATS, Format
from driftline.instabilities.counting import flags
from driftline.instabilities.frameworks import Framework, available, parse_frameworks
from driftline.instabilities.measuring import ModelScreener, ReferredModel
from driftline.instabilities.models import MEANING, ModelFiles, read_models
from driftline.instabilities.pictures import as_png, new_figure
from driftline.instabilities.records import ModelRecord, RunFolder
from driftline.instabilities.requests import ReferItem
from driftline.instabilities.summary import frameworks_of, instability

POINTS = 49  # along each axis; odd, so that zero is one of them
_SORTS = ("as in float64", "far from float64", "underflow", "Inf", "NaN")
_COLOURS = ("#f2f2f2", "#E69F00", "#56B4E9", "#0072B2", "#D55E00")


@dataclass(frozen=True)
class MapModel:
    """The model to map, with the frameworks that were measured on it."""

    files: ModelFiles
    frameworks: tuple[Framework, ...]


@dataclass(frozen=True)
class BreakMap:
    """The result at each point of the map, as an index into `_SORTS`, for each framework. Rows are the second input,
    columns the first."""

    model: ModelFiles
    form: Format
    axis: Array
    panels: dict[str, Array]


def find_map_model(folder: RunFolder, records: Sequence[ModelRecord], name: str = "") -> MapModel | str:
    """Return the model called `name`, or the least stable two-input model; or a sentence that says why there is
    none."""
    place = Path(str(folder.settings.get("folder", "?")))
    if not place.is_dir():
        return f"No map of the input space was drawn: the models of the run are not in {place}."
    models = {model.name: model for model in read_models(place)}
    known = {record.model: record for record in records if record.model in models and record.runtimes}
    if name and name not in known:
        raise DriftlineError(f"--map {name}: the run has no such model.{did_you_mean(name, known)}")
    able = [known[name]] if name else [record for record in known.values() if _takes_two(models[record.model])]
    if not able:
        return "No map of the input space was drawn: no model of the run has two inputs."
    record = max(able, key=instability)
    wanted = parse_frameworks(",".join(frameworks_of([record])))  # in the order of the other pictures
    return MapModel(models[record.model], tuple(available(wanted)[0]))


def _takes_two(model: ModelFiles) -> bool:
    return "x1" in model.expression and "x2" not in model.expression


def measure_map(pool: Pool, asked: MapModel, options: CheckOptions) -> BreakMap:
    """Run the model on every point of the map on every framework, and classify each result against float64."""
    forms = {framework.form(asked.files) for framework in asked.frameworks}
    programs = {form: open_program(text, pool, options) for form, text in asked.files.programs.items() if form in forms}
    if not programs:
        raise DriftlineError(f"--map {asked.files.name}: none of the frameworks of its run is available here.")
    first = next(iter(programs.values()))
    specs = first.program.inputs
    if len(specs) != 2 or any(not is_float(spec.dtype) or spec.dtype not in FORMATS for spec in specs):
        raise DriftlineError(f"--map {asked.files.name}: only a model of two float inputs has a map.")
    form = FORMATS[specs[0].dtype]
    ordinals = np.linspace(-form.largest_ordinal, form.largest_ordinal, POINTS).round().astype(np.int64)
    axis = form.value_of(ordinals)
    panels: dict[str, Array] = {}
    for name, program in programs.items():
        mine = [one for one in asked.frameworks if one.form(asked.files) == name]
        if mine:
            panels |= _panels(pool, program, name, mine, axis, options)
    if not panels:
        raise DriftlineError(f"{asked.files.name}: no framework ran it on the points of a map.")
    ordered = {one.name: panels[one.name] for one in asked.frameworks if one.name in panels}
    return BreakMap(asked.files, form, axis, ordered)


def _panels(
    pool: Pool, program: LoadedProgram, form: str, frameworks: Sequence[Framework], axis: Array, options: CheckOptions
) -> dict[str, Array]:
    samples = _samples(program, axis)
    with ModelScreener(pool, MEANING[form], timeout=options.timeout) as screener:
        tensors = screener.folder / "map.inputs"
        save_samples(tensors, samples)
        (found,) = screener.refer([ReferItem(program.program, str(tensors), ("map",) * len(samples))])
        if isinstance(found, InvalidProgram) or not found.exact:
            return {}
        return {one.name: panel for one in frameworks if (panel := _panel(screener, found, one, len(axis))) is not None}


def _panel(screener: ModelScreener, model: ReferredModel, framework: Framework, size: int) -> Array | None:
    got = screener.outputs({0: model}, framework.target).get(0)
    if got is None:
        return None
    exact = load_samples(model.exact)
    rows = [
        _first_column(_sorts(next(iter(a.values())), next(iter(b.values())))) for a, b in zip(got, exact, strict=True)
    ]
    return np.concatenate(rows)[: size * size].reshape(size, size)


def _samples(program: LoadedProgram, axis: Array) -> list[Arrays]:
    """Return input samples that cover all pairs of `axis` values, one pair for each row. The last pair fills up the
    last sample."""
    first, second = program.program.inputs
    shape = first.sized(8)
    rows = int(np.prod(shape[:-1])) if len(shape) > 1 else int(shape[0])
    width = int(shape[-1]) if len(shape) > 1 else 1
    pairs = np.stack([part.reshape(-1) for part in np.meshgrid(axis, axis)])  # the first input changes fastest
    missing = -pairs.shape[1] % rows
    pairs = np.concatenate([pairs, np.repeat(pairs[:, -1:], missing, axis=1)], axis=1)
    form = FORMATS[first.dtype]
    return [
        {
            spec.name: np.repeat(part[start : start + rows], width).reshape(shape).astype(form.dtype)
            for spec, part in zip((first, second), pairs, strict=True)
        }
        for start in range(0, pairs.shape[1], rows)
    ]


def _sorts(got: Array, exact: Array) -> Array:
    found = flags(got, exact)
    order = (found.apart, found.underflow, found.inf, found.nan)  # the gravest last
    sorts: Array = np.zeros(got.shape, np.int64)
    for number, mask in enumerate(order, 1):
        sorts = np.where(mask, number, sorts)
    return sorts


def _first_column(sorts: Array) -> Array:
    """Return the first element of each row. A model that reduces its rows has only one element there."""
    return sorts.reshape(-1, sorts.shape[-1])[:, 0] if sorts.ndim > 1 else sorts


def draw_map(found: BreakMap) -> bytes:
    """Return the map as a PNG, with one panel for each framework."""
    import matplotlib
    from matplotlib.colors import BoundaryNorm
    from matplotlib.patches import Patch

    names = list(found.panels)
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = new_figure(1.4 + 3.5 * columns, 1.4 + 3.5 * rows)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    colours = matplotlib.colors.ListedColormap(_COLOURS)
    ticks = _ticks(found)
    for number, axes in enumerate(grid.reshape(-1)):
        if number >= len(names):
            axes.set_visible(False)
            continue
        axes.imshow(
            found.panels[names[number]], cmap=colours, norm=BoundaryNorm(np.arange(-0.5, len(_SORTS)), len(_SORTS)),
            origin="lower", interpolation="nearest",
        )  # fmt: skip
        axes.set_title(names[number], fontsize=10)
        axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks], rotation=60, fontsize=8)
        axes.set_yticks([at for at, _ in ticks], [text for _, text in ticks], fontsize=8)
        if number % columns == 0:
            axes.set_ylabel("x1")
        if number + columns >= len(names):  # there is none below
            axes.set_xlabel("x0")
            axes.tick_params(labelbottom=True)
    seen = {int(sort) for panel in found.panels.values() for sort in np.unique(panel)}
    patches = [Patch(facecolor=_COLOURS[sort], edgecolor="#666666", label=_SORTS[sort]) for sort in sorted(seen)]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)
    figure.suptitle(f"Where {found.model.expression or found.model.name} breaks: all {found.form} numbers in order")
    return as_png(figure)


def _ticks(found: BreakMap) -> list[tuple[float, str]]:
    """Return (position, label) for round numbers along an axis, placed by their rank among all floats."""
    last = found.form.largest_ordinal
    sizes = (1e-30, 1e-15, 1.0, 1e15, 1e30) if last > 1 << 20 or found.form.name == "bfloat16" else (1e-3, 1.0, 1e3)
    wanted = (*(-size for size in reversed(sizes)), 0.0, *sizes)
    inside = [
        value for value in wanted if abs(value) <= found.form.largest and (not value or _can_hold(found.form, value))
    ]
    places = [float(found.form.ordinal_of(np.asarray(value))) for value in inside]
    scaled = [(place + last) / (2 * last) * (len(found.axis) - 1) for place in places]
    return [(at, f"{value:g}") for at, value in zip(scaled, inside, strict=True)]


def _can_hold(form: Format, value: float) -> bool:
    return abs(value) >= form.smallest_normal
