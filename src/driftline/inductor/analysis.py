"""Reads the runs in a lab folder, for `analyze` and `report`. Imports no torch."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from driftline.core.errors import DriftlineError
from driftline.inductor.capturing import load_capture
from driftline.inductor.guard_words import read_guards
from driftline.inductor.guards import GuardReport, read_break
from driftline.inductor.lab import Lab, LabRun
from driftline.inductor.page import capture_page, short_path

SCHEMA = 1
_RESULTS = {"capture": "capture.json", "guards": "guards.json", "diff": "diff.json", "mock": "violations.json"}


def analyze_guards(lab: Lab) -> dict[str, Any]:
    """Return the results of the last guard inspection; without one, the guards of the last capture."""
    run = lab.require_run(["guards", "capture"])
    if run.kind == "guards":
        return dict(_result(run))
    captured = load_capture(run)["compilations"]
    graphs = [
        {"id": one["id"], "function": one["function"], "guards": [g.to_json() for g in read_guards(one["guards"])]}
        for one in captured
    ]
    texts = [text for one in captured for text in one["breaks"]]
    report = GuardReport(1, (), tuple(dict.fromkeys(map(read_break, texts))), recompilations=(), storm="")
    return {**report.to_json(), "graphs": graphs}


def analyze_constraints(lab: Lab) -> dict[str, Any]:
    """Return the report of the last mock backend."""
    return dict(_result(lab.require_run(["mock"])))


def analyze_summary(lab: Lab) -> dict[str, Any]:
    """Return statistics of every graph of the last capture."""
    return _summary(load_capture(lab.require_run(["capture"])))


def _summary(captured: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "name": captured["name"],
        "torch": captured["torch"],
        "compilations": [
            {
                "id": one["id"],
                "function": one["function"],
                "file": one["file"],
                "line": one["line"],
                "graphs": {stage: graph["statistics"] for stage, graph in one["graphs"].items()},
                "kernels": [{k: kernel[k] for k in ("name", "language", "nodes")} for kernel in one["kernels"]],
                "breaks": len(one["breaks"]),
                "seconds": max(one["times"].values(), default=0.0),
            }
            for one in captured["compilations"]
        ],
    }


def report_json(lab: Lab) -> dict[str, Any]:
    """Return every complete run with its results."""
    lab.require_run()
    runs = [run for run in lab.runs() if run.complete]
    return {
        "schema": SCHEMA,
        "runs": [{"folder": str(run.folder), **run.to_json(), "result": _any(run)} for run in runs],
    }


def report_html(lab: Lab, out: Path) -> None:
    """Write one page about all runs. The page of a capture is written again if there is a diff of its model."""
    lab.require_run()
    every = lab.runs()
    runs, incomplete = [run for run in every if run.complete], [run for run in every if not run.complete]
    diffs = {run.name: _result(run) for run in runs if run.kind == "diff"}
    for run in runs:
        if run.kind == "capture" and run.name in diffs:
            run.write("index.html", capture_page(load_capture(run), run.read, diffs[run.name]))
    environment = Environment(
        loader=PackageLoader("driftline.inductor"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["short_path"] = short_path
    shown = [{"run": run, "result": _shown(run), "pictures": _pictures(run), "link": _link(run, out)} for run in runs]
    text = environment.get_template("lab.html").render(folder=str(lab.folder), runs=shown, incomplete=incomplete)
    try:
        out.write_text(text)
    except OSError as error:
        raise DriftlineError(f"Cannot write {out}: {error.strerror}.") from error


def _any(run: LabRun) -> Any:
    return _result(run) if run.kind in _RESULTS else None


def _shown(run: LabRun) -> Any:
    """Return the part of a run's result that the page shows: for a capture, its summary."""
    return _summary(load_capture(run)) if run.kind == "capture" else _any(run)


def _result(run: LabRun) -> Any:
    name = _RESULTS[run.kind]
    try:
        return run.read_json(name)
    except (OSError, ValueError) as error:
        raise DriftlineError(f"{run.folder} is damaged: {name} is missing or cannot be read.") from error


def _pictures(run: LabRun) -> list[dict[str, str]]:
    return [
        {"name": Path(name).stem, "data": base64.b64encode((run.folder / name).read_bytes()).decode()}
        for name in run.files
        if name.endswith(".png") and run.has(name)
    ]


def _link(run: LabRun, out: Path) -> str:
    page = run.folder / "index.html"
    if run.kind != "capture" or not page.is_file():
        return ""
    try:
        return page.resolve().relative_to(out.resolve().parent).as_posix()
    except ValueError:
        return page.resolve().as_uri()
