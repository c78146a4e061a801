"""Polygraphy's `debug reduce` on ONNX Runtime bugs, and Driftline on the same models.

Polygraphy lives in an environment of its own: driftline env add polygraphy==0.49.26 --with onnx==1.23.2
--with onnxruntime==1.31.1 --with onnx-graphsurgeon
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NODES = 45
# Polygraphy calls it with the path of a model: 1 means that the bug shows. Every call leaves a line.
CHECK = """\
import sys
import onnxruntime
with open({log!r}, "a") as log:
    log.write("asked\\n")
try:
    onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
except Exception as error:
    sys.exit(1 if "Unexpected data type for Clip" in str(error) else 0)
"""


def failing_models(seeds: int) -> Iterator[tuple[str, Any]]:
    """Relu and Clip in float64, which ONNX Runtime cannot load, in a chain and in a graph with branches."""
    for seed in range(seeds):
        yield f"onnx chain seed={seed}", _model(random.Random(seed), branches=False)
        yield f"onnx branches seed={seed}", _model(random.Random(seed), branches=True)


def _model(rng: random.Random, *, branches: bool) -> Any:
    constants = [numpy_helper.from_array(np.array(v), n) for v, n in ((-0.5, "low"), (2.0, "high"), (0.75, "scale"))]
    nodes, values = [], ["x"]
    place = rng.randrange(5, NODES - 10)

    def add(op: str, *inputs: str) -> str:
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(op, list(inputs), [name]))
        values.append(name)
        return name

    while len(nodes) < NODES:
        near = values[-4:] if branches else values[-1:]
        if len(nodes) == place:
            positive = add("Relu", rng.choice(near))
            values.pop()  # nobody else reads it, or the two would not be merged
            add("Clip", positive, "low", "high")
        elif branches and rng.random() < 0.5:
            add("Add", rng.choice(near), rng.choice(near))
        else:
            op = rng.choice(("Tanh", "Sigmoid", "Abs", "Neg", "Mul"))
            add(op, rng.choice(near), *(["scale"] if op == "Mul" else []))
    read = {name for node in nodes for name in node.input}
    for name in [value for value in values[:-1] if value not in read]:
        add("Add", values[-1], name)
    shape = [3, 4]
    graph = helper.make_graph(
        nodes,
        "bug",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, shape)],
        [helper.make_tensor_value_info(values[-1], TensorProto.DOUBLE, shape)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def onnx_by_driftline(name: str, model: Any) -> dict[str, Any]:
    """The whole reduction; queries are counted up to the last step that took a node away: Polygraphy does no more."""
    from driftline.checking.checker import Checker
    from driftline.checking.open import open_program
    from driftline.core.case import Case, CheckOptions, Inputs
    from driftline.core.target import Target
    from driftline.diagnose.reduce.reducer import reduce_case
    from driftline.diagnose.reduce.signature import Signature
    from driftline.execute.pool import Pool

    with tempfile.TemporaryDirectory() as folder, Pool() as pool:
        path = Path(folder) / "model.onnx"
        onnx.save(model, str(path))
        options = CheckOptions()
        opened = open_program(str(path), pool, options)
        sample = Inputs({"x": np.linspace(-2, 2, 12).reshape(3, 4)}, "fixed")
        case = Case(opened.program, (sample,), (Target.parse("onnxruntime"),), options)
        checker = Checker(pool)
        (result,) = checker.check(case).results
        began = time.monotonic()
        told = str(result.execution.failure)
        found = reduce_case(checker, case, Signature.of("COMPILE", str(result.verdict.kind), told), budget=120)
    last = next(step for step in found.steps if step.size.operators == found.after.operators)
    return {
        "case": name,
        "reducer": "driftline",
        "before": len(model.graph.node),
        "left": found.after.operators,
        "inputs": len(found.case.program.inputs),
        "queries": last.queries + 1,  # and the look at the model itself
        "seconds": time.monotonic() - began,
    }


def by_polygraphy(name: str, model: Any, mode: str) -> dict[str, Any]:
    from driftline.execute.environments import find_environment

    environment = find_environment(["polygraphy"], None)
    if environment is None:
        raise SystemExit(__doc__)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        onnx.save(model, str(home / "model.onnx"))
        (home / "check.py").write_text(CHECK.format(log=str(home / "log")))
        command = [
            environment.python, "-c", "from polygraphy.tools import main; main()", "debug", "reduce", "model.onnx",
            "-o", "reduced.onnx", "--mode", mode,
            "--check", environment.python, "check.py", "polygraphy_debug.onnx",
        ]  # fmt: skip
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=600)
        asked = len((home / "log").read_text().splitlines()) if (home / "log").exists() else 0
        reduced = home / "reduced.onnx"
        left = len(onnx.load(str(reduced)).graph.node) if reduced.exists() else len(model.graph.node)
        inputs = len(onnx.load(str(reduced)).graph.input) if reduced.exists() else 1
    said = (done.stderr or done.stdout).strip().splitlines()
    trouble = "" if done.returncode == 0 else f"ended with {done.returncode}: {said[-1][:80] if said else ''}"
    return {
        "case": name,
        "reducer": f"polygraphy {mode}",
        "before": len(model.graph.node),
        "left": left,
        "inputs": inputs,
        "queries": asked,
        "seconds": time.monotonic() - began,
        "trouble": trouble,
    }
