"""Wall time of a whole diagnosis, for `reduce.py`: `driftline diagnose` as a user calls it.

On what a short hunt keeps, which its triage has cut down already; and on whole programs: the models of `_reduce_onnx`
with branches, and a dozen torch operators.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HUNT = "4m"
BUDGET = "5m"  # of one diagnosis; the aim for the median is three minutes
EACH = 2  # bugs of one compiler
# 0 * x is folded to zeros although x holds an infinity, among operators that are right.
TORCH_PROGRAM = """\
import torch


def model(x):
    y = torch.tanh(x) + 1.5
    z = torch.relu(y - 0.25)
    zero = x * 0
    z = torch.sigmoid(z) * 2 - y
    z = torch.softmax(z, dim=-1) + torch.cos(y)
    return torch.abs(z).clamp(max=3) + zero


def program():
    x = torch.linspace(-2, 2, 24).reshape(4, 6)
    x[1, 2] = torch.inf
    return model, (x,)
"""


def hunted_bugs() -> Iterator[tuple[str, list[str]]]:
    """What a hunt with default settings finds, the first two bugs of every compiler: names and what to diagnose."""
    with tempfile.TemporaryDirectory() as folder:
        _driftline("hunt", "--budget", HUNT, "--store", folder)
        taken: dict[str, int] = {}
        for bug in json.loads(_driftline("bugs", "list", "--store", folder, "--json"))["bugs"]:
            compiler = bug["id"].rpartition("-")[0]
            taken[compiler] = taken.get(compiler, 0) + 1
            if taken[compiler] <= EACH:
                yield bug["id"], [bug["id"], "--store", folder]


def whole_programs() -> Iterator[tuple[str, list[str]]]:
    import onnx
    from _reduce_onnx import bugs

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "program.py"
        source.write_text(TORCH_PROGRAM)
        yield "inductor 0*x", [f"{source}:program", "--target", "inductor", "--store", f"{folder}/torch"]
        for number, bug in enumerate(bugs(1, layouts=("branches", "inputs"))):
            path = Path(folder) / f"model{number}.onnx"
            onnx.save(bug.model, str(path))
            yield bug.name, [str(path), "--target", "onnxruntime", "--store", f"{folder}/onnx{number}"]


def diagnose(name: str, subject: list[str]) -> dict[str, Any]:
    began = time.monotonic()
    found = json.loads(_driftline("diagnose", *subject, "--budget", BUDGET, "--json"))
    seconds = time.monotonic() - began
    reduction = found["reduction"] or {}
    return {
        "case": name,
        "reducer": "driftline",
        "before": reduction.get("before", {}).get("operators", 0),
        "left": reduction.get("after", {}).get("operators", 0),
        "inputs": 0,
        "queries": reduction.get("queries", 0),
        "seconds": seconds,
        "trouble": "; ".join(f"{step}: {why}" for step, why in found["notes"].items()),
    }


def _driftline(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "driftline", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"driftline {' '.join(arguments)} ended with {done.returncode}")
    return done.stdout
