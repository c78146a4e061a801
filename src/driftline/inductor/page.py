"""The HTML page of a capture: one offline file that links source lines, nodes and kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_LABELS = {
    "pre_aot": "Dynamo (pre-AOT)",
    "joint": "AOT joint",
    "forward": "AOT forward",
    "backward": "AOT backward",
    "post_grad": "post-grad forward",
    "post_grad_backward": "post-grad backward",
}


def capture_page(result: Mapping[str, Any], read: Callable[[str], str], diff: Mapping[str, Any] | None = None) -> str:
    """Return the page. `read` returns the text of a file of the run; `diff` is the JSON of a KernelDiff of the same
    model."""
    environment = Environment(
        loader=PackageLoader("driftline.inductor"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    compilations = [_compilation(at, one, read, diff) for at, one in enumerate(result["compilations"])]
    text = environment.get_template("capture.html").render(capture=result, compilations=compilations, diff=diff)
    return str(text)


def _compilation(
    at: int, one: Mapping[str, Any], read: Callable[[str], str], diff: Mapping[str, Any] | None
) -> dict[str, Any]:
    kernels = one["kernels"]
    stages = []
    for stage, graph in one["graphs"].items():
        errors = _errors(stage, graph, diff) if at == 0 else {}
        rows = [_row(node, stage, kernels, errors) for node in graph["nodes"]]
        stages.append(
            {
                "id": f"c{at}-{stage}",
                "label": _LABELS.get(stage, stage.replace("_", " ")),
                "rows": rows,
                "pictures": _pictures(graph, read),
                "text": read(graph["file"]),
                "statistics": graph["statistics"],
            }
        )
    return {
        **one,
        "place": f"{short_path(one['file'])}:{one['line']}",
        "stages": sorted(stages, key=lambda s: not s["id"].endswith("post_grad")),
        "lines": _lines(stages),
        "texts": [{"label": file["label"], "text": read(file["file"])} for file in one["files"]],
        "slowest": list(one["times"].items())[:24],
    }


def _pictures(graph: Mapping[str, Any], read: Callable[[str], str]) -> dict[str, Markup]:
    """Return the pictures by view: with repeated layers folded, if there are any, and whole."""
    files = {
        "folded": graph.get("folded_picture", ""),
        "whole": graph["picture"],
    }  # earlier captures have no folded one
    return {view: Markup(read(file)) for view, file in files.items() if file}


def _row(
    node: Mapping[str, Any], stage: str, kernels: list[dict[str, Any]], errors: Mapping[str, str]
) -> dict[str, Any]:
    source = node["source"]
    if stage == "pre_aot":
        own = [k["number"] for k in kernels if node["name"] in k["pre_grad_nodes"]]
    else:
        own = [k["number"] for k in kernels if k["stage"] == stage and node["name"] in k["nodes"]]
    return {
        **node,
        "kernels": own,
        "line": f"{source['file']}:{source['line']}" if source else "",
        "short": f"{PurePath(source['file']).name}:{source['line']}" if source else "",
        "error": errors.get(node["name"], ""),
    }


def _lines(stages: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the user's source lines, sorted by file and number."""
    found = {
        row["line"]: {"key": row["line"], "short": row["short"], "code": row["source"]["code"]}
        for stage in stages
        for row in stage["rows"]
        if row["line"]
    }
    return sorted(
        found.values(), key=lambda line: (line["key"].rpartition(":")[0], int(line["key"].rpartition(":")[2]))
    )


def _errors(stage: str, graph: Mapping[str, Any], diff: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the errors of outputs that a diff measured, by the nodes that make them, in the order of return."""
    if diff is None or stage not in ("pre_aot", "forward", "post_grad"):
        return {}
    outputs = [o for o in diff["outputs"] if not o["name"].startswith("grad:")]
    return {
        name: f"max abs {output['metrics']['max_abs']:.3g}, {output['judgement']}"
        for name, output in zip(graph["outputs"], outputs, strict=False)
        if output.get("metrics")
    }


def short_path(path: str) -> str:
    """Return the last two parts of a path, enough to recognise a file."""
    return "/".join(PurePath(path).parts[-2:])
