"""Report several runs together: a table of all runs, the changes between them, and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.output_place import make_folder
from driftline.core.private import write_private
from driftline.instabilities.breaking import draw_map, find_map_model, measure_map
from driftline.instabilities.pictures import draw_bars, draw_errors, draw_heat_map
from driftline.instabilities.records import ModelRecord, RunFolder, RuntimeRecord
from driftline.instabilities.summary import COLUMNS, csv_text, framework_table, instability, summary_rows, table

_SHOWN = 40  # changes in the page; the table has all


@dataclass(frozen=True)
class NamedRun:
    """A run with the name that the report gives it."""

    name: str
    folder: RunFolder
    records: list[ModelRecord]


@dataclass(frozen=True)
class InstabilityReport:
    """The files of a written report, and notes about pictures that could not be drawn."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def read_runs(folders: Sequence[Path]) -> list[NamedRun]:
    """Read the runs of `folders`, each named after its folder. Runs with the same folder name are named by their full
    path."""
    if not folders:
        raise DriftlineError("Name at least one run: --runs RUN.")
    names = [folder.resolve().name for folder in folders]
    found = []
    for folder, name in zip(folders, names, strict=True):
        if not folder.is_dir():
            raise DriftlineError(f"--runs {folder}: there is no such folder.")
        run = RunFolder(folder)
        _ = run.settings  # raises an error if the folder is not a run
        records = run.records()
        if not any(record.runtimes for record in records):
            raise DriftlineError(f"--runs {folder}: nothing is measured in it yet.")
        found.append(NamedRun(name if names.count(name) == 1 else str(folder), run, records))
    return found


def write_report(
    runs: Sequence[NamedRun],
    out: Path,
    checker: Checker | None = None,
    model: str = "",
    say: Callable[[str], None] = lambda words: None,
) -> InstabilityReport:
    """Write the tables and pictures of `runs` to the folder `out`. With a checker, also measure and draw the map of
    `model`, or of the least stable two-input model."""
    make_folder(out)
    pictures: dict[str, bytes] = {}
    notes = []
    for run in runs:
        ending = f"-{_stem(run.name)}" if len(runs) > 1 else ""
        say(f"drawing {run.name}")
        pictures[f"models{ending}.png"] = draw_bars(run.records, run.name)
        pictures[f"frameworks{ending}.png"] = draw_heat_map(run.records, run.name)
        pictures[f"errors{ending}.png"] = draw_errors(run.records, run.name)
    if checker:
        found = find_map_model(runs[0].folder, runs[0].records, model)
        if isinstance(found, str):
            notes.append(found)
        else:
            say(f"mapping {found.files.name}")
            measured = measure_map(checker.pool, found, CheckOptions(timeout=60.0))
            pictures[f"map-{found.files.name}.png"] = draw_map(measured)
    rows = [[run.name, *row] for run in runs for row in summary_rows(run.records)]
    texts = {"summary.csv": csv_text(("run", *COLUMNS), rows), "summary.md": _page(runs, list(pictures), notes)}
    for name, data in {**{name: text.encode() for name, text in texts.items()}, **pictures}.items():
        write_private(out / name, [data])
    return InstabilityReport(tuple(out / name for name in (*texts, *pictures)), tuple(notes))


def _stem(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name).strip("._") or "run"


def _page(runs: Sequence[NamedRun], pictures: Sequence[str], notes: Sequence[str]) -> str:
    lines = ["# Numerical instabilities", ""]
    for run in runs:
        worst = max(run.records, key=instability)
        conflicts = sum(bool(record.conflicts) for record in run.records)
        lines += [
            f"## Run {run.name}",
            "",
            f"{len(run.records)} models on inputs from {run.folder.settings.get('source', 'a file')}. The least stable"
            f" is `{worst.model}` ({worst.expression or 'a model of yours'}). Runtimes disagree about NaN or infinity"
            f" on {conflicts} models.",
            "",
            *framework_table(run.records),
            "",
        ]
    if len(runs) > 1:
        lines += _changes(runs)
    lines += ["## Pictures", "", *(f"![{name.removesuffix('.png')}]({name})" for name in pictures), ""]
    return "\n".join([*lines, *notes]).rstrip() + "\n"


def _changes(runs: Sequence[NamedRun]) -> list[str]:
    """Return Markdown lines for the (model, framework) pairs whose result differs from the first run."""
    first, rows = _pairs(runs[0].records), []
    for run in runs[1:]:
        for (model, framework), now in _pairs(run.records).items():
            before = first.get((model, framework))
            if before is not None and _state(before) != _state(now):
                rows.append([run.name, model, framework, _words(before), _words(now)])
    head = ["## What changed since the first run", ""]
    if not rows:
        return [*head, f"Nothing: every model that {runs[0].name} has comes out the same.", ""]
    more = [f"and {len(rows) - _SHOWN} more in summary.csv.", ""] if len(rows) > _SHOWN else []
    return [*head, *table(("run", "model", "framework", runs[0].name, "now"), rows[:_SHOWN]), "", *more]


def _pairs(records: Iterable[ModelRecord]) -> dict[tuple[str, str], RuntimeRecord]:
    return {(record.model, one.framework): one for record in records for one in record.runtimes}


def _state(one: RuntimeRecord) -> tuple[object, ...]:
    return one.total("nan"), one.total("inf"), one.errors, one.total("disagreements"), one.verdict == "fail"


def _words(one: RuntimeRecord) -> str:
    wrong = ", wrong" if one.verdict == "fail" else ""
    return (
        f"{one.total('nan')} NaN, {one.total('inf')} Inf, {one.errors} errors, {one.total('disagreements')} far{wrong}"
    )
