"""Capture: keeps everything that torch.compile makes of a model, as files and as one page.

    with driftline.inductor.capture("inductor-lab") as captured:
        torch.compile(model)(x).sum().backward()
    print(captured.page)

A run holds one folder for each compilation with its graphs, IR, kernels and guards as torch wrote them, `capture.json`
with all of it as values, and `index.html`. Code that was compiled before the block is not compiled again and therefore
not recorded; with `reset=True` torch forgets it first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.text import first_line
from driftline.inductor.drawing import draw
from driftline.inductor.folding import fold
from driftline.inductor.graph_text import read_graph
from driftline.inductor.guards import frame_of
from driftline.inductor.kernels import Kernel, aot_id, read_kernels
from driftline.inductor.lab import DEFAULT, Lab, LabRun
from driftline.inductor.page import capture_page
from driftline.inductor.recorder import Compilation, LoweredGraph, Recording, recording
from driftline.inductor.statistics import measure

SCHEMA = 1
STAGES = {
    "pre_aot": "the graph that Dynamo captured",
    "joint": "forward and backward together, before they are parted",
    "forward": "the forward graph of AOTAutograd",
    "backward": "the backward graph of AOTAutograd",
    "post_grad": "what Inductor lowers, after its graph passes",
    "post_grad_backward": "the same of the backward",
}
_FILES = {
    "ir_before_fusion": "Inductor IR before fusion",
    "ir_after_fusion": "Inductor IR after fusion",
    "code": "generated code",
}


class Capture:
    """A capture: the folder of its run and, after the block, its result."""

    def __init__(self, run: LabRun) -> None:
        self.run = run
        self.result: dict[str, Any] = {}

    @property
    def folder(self) -> Path:
        return self.run.folder

    @property
    def page(self) -> Path:
        return self.run.folder / "index.html"


@contextlib.contextmanager
def capture(out: str | Path = DEFAULT, *, name: str = "model", reset: bool = False) -> Iterator[Capture]:
    """Record everything that is compiled in the block, also when the block raises."""
    import torch

    run = Lab(out).new_run("capture", name)
    captured = Capture(run)
    error: BaseException | None = None
    if reset:
        torch._dynamo.reset()
    with recording() as heard:
        try:
            yield captured
        except Exception as raised:
            error = raised
    captured.result = write_capture(run, heard, str(torch.__version__), error)
    if error is not None:
        raise error


def write_capture(run: LabRun, heard: Recording, version: str, error: BaseException | None = None) -> dict[str, Any]:
    """Write what was recorded into the run's folder, as files, values and a page; returns the values."""
    compiled = [one for one in heard.compilations.values() if one.graphs or one.breaks or one.guards]
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "name": run.name,
        "made": run.made,
        "torch": version,
        "error": f"{type(error).__name__}: {first_line(str(error))}" if error else "",
        "compilations": [_compilation(run, one, heard) for one in compiled],
    }
    run.write_json("capture.json", result)
    run.write("index.html", capture_page(result, run.read))
    graphs = sum(len(one["graphs"]) for one in result["compilations"])
    kernels = sum(len(one["kernels"]) for one in result["compilations"])
    run.finish(compilations=len(compiled), graphs=graphs, kernels=kernels)
    return result


def _compilation(run: LabRun, one: Compilation, heard: Recording) -> dict[str, Any]:
    folder = f"compilation-{one.id.replace('/', '-').replace('!', 'autograd')}"
    frame = one.stack[-1] if one.stack else {}
    kernels, texts, files = _lowered(run, folder, one)
    numbers = {kernel["handle"]: kernel["number"] for kernel in kernels}
    graphs = {}
    for stage, text in {**one.graphs, **texts}.items():
        run.write(f"{folder}/{stage}.py", text)
        computed = [k for k in kernels if k["stage"] == stage]
        graphs[stage] = _graph(run, f"{folder}/{stage}", stage, text, computed, numbers)
    if one.guards:
        run.write(f"{folder}/guards.txt", one.guards)
    return {
        "id": one.id,
        "function": frame_of(one)[0] or one.metrics.get("co_name", ""),
        "file": frame.get("filename", one.metrics.get("co_filename", "")),
        "line": frame.get("line", one.metrics.get("co_firstlineno", 0)),
        "graphs": graphs,
        "kernels": kernels,
        "files": files,
        "guards": one.guards,
        "breaks": [entry["text"] for entry in one.breaks],
        "recompile_reasons": one.recompile_reasons,
        "times": _times(one, heard),
        "folder": folder,
    }


def _lowered(
    run: LabRun, folder: str, one: Compilation
) -> tuple[list[dict[str, Any]], dict[str, str], list[dict[str, str]]]:
    """Return the numbered kernels of all lowerings, the post-grad graphs by stage, and the files of IR and code."""
    kernels: list[dict[str, Any]] = []
    texts: dict[str, str] = {}
    files: list[dict[str, str]] = []
    for lowering in one.lowerings:
        stage = "post_grad_backward" if _is_backward(lowering, texts) else "post_grad"
        while stage in texts:  # a graph may be lowered in several parts
            stage += "_more"
        texts[stage] = lowering.post_grad
        suffix = stage.removeprefix("post_grad").strip("_") or "forward"
        for name, label in _FILES.items():
            if text := getattr(lowering, name):
                file = f"{folder}/{name}-{suffix}.{'py' if name == 'code' else 'txt'}"
                run.write(file, text)
                files.append({"label": f"{label}, {suffix}", "file": file})
        for kernel in read_kernels(lowering.code, lowering.nodes, lowering.stacks):
            kernels.append(_kernel(run, folder, stage, suffix, len(kernels) + 1, kernel, lowering))
    return kernels, texts, files


def _is_backward(lowering: LoweredGraph, texts: dict[str, str]) -> bool:
    told = aot_id(lowering.code)
    return told.endswith("_backward") if told else "post_grad" in texts


def _kernel(
    run: LabRun, folder: str, stage: str, suffix: str, number: int, kernel: Kernel, lowering: LoweredGraph
) -> dict[str, Any]:
    file = ""
    if kernel.source:
        ending = "cpp" if kernel.language == "C++" else "py"
        file = f"{folder}/kernels/{suffix}-{kernel.name}.{ending}"
        run.write(file, kernel.source)
    before = list(dict.fromkeys(n for node in kernel.nodes for n in lowering.before_grad.get(node, ())))
    return {**kernel.to_json(), "number": number, "stage": stage, "file": file, "pre_grad_nodes": before}


def _graph(
    run: LabRun, place: str, stage: str, text: str, kernels: list[dict[str, Any]], numbers: dict[str, int]
) -> dict[str, Any]:
    try:
        graph = read_graph(text)
    except ValueError:
        files = {"file": f"{place}.py", "picture": "", "folded_picture": ""}
        return {**files, "inputs": [], "nodes": [], "outputs": [], "statistics": None}
    by_node: dict[str, list[int]] = {}
    for kernel in kernels:
        for node in kernel["nodes"]:
            by_node.setdefault(node, []).append(numbers[kernel["handle"]])
    title = f"{stage}: {STAGES.get(stage, stage)}"
    files = {"file": f"{place}.py", "picture": f"{place}.svg", "folded_picture": ""}
    run.write(files["picture"], draw(graph, by_node, title=title))
    if folded := fold(graph, by_node):
        files["folded_picture"] = f"{place}-folded.svg"
        run.write(files["folded_picture"], draw(folded.graph, by_node, title=title, folded=folded.members))
    return {**files, **graph.to_json(), "statistics": measure(graph).to_json()}


def _times(one: Compilation, heard: Recording) -> dict[str, float]:
    """Return the seconds of each phase, longest first. Phases are nested."""
    times: dict[str, float] = {}
    for name, phase, seconds in heard.phases:
        if name == one.id:
            times[phase] = round(times.get(phase, 0.0) + seconds, 4)
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def load_capture(run: LabRun) -> dict[str, Any]:
    """Read the values of a capture; raises if the file is damaged."""
    try:
        value = run.read_json("capture.json")
        if value["schema"] != SCHEMA:
            raise DriftlineError(f"{run.folder} was written by another release of Driftline.")
        return dict(value)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DriftlineError(f"{run.folder} is damaged: capture.json is missing or no capture.") from error
