"""Polygraphy's `debug reduce` on ONNX Runtime bugs, and Driftline on the same models.

Polygraphy lives in an environment of its own: driftline env add polygraphy==0.49.26 --with onnx==1.23.2
--with onnxruntime==1.31.1 --with onnx-graphsurgeon

It is used as its manual says: where values matter, those of every tensor are computed before (here by the reference
evaluator of the ONNX project), the cut model is fed with them and compared with them.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from _reduce_onnx import Bug
from onnx.reference import ReferenceEvaluator

LIMIT = 600  # seconds for one reduction by Polygraphy
# Polygraphy calls it with the path of a model: 1 means that the bug shows. Every call leaves a line.
CHECK = """\
import sys
import numpy as np
import onnx
import onnxruntime
with open("log", "a") as log:
    log.write("asked\\n")
values = np.load("values.npz")
try:
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    got = session.run(None, {i.name: values[i.name] for i in session.get_inputs()})
except Exception as error:
    sys.exit(1 if MESSAGE and MESSAGE in str(error) else 0)
names = [output.name for output in session.get_outputs()]
same = all(np.allclose(a, values[n], rtol=1e-9, atol=0, equal_nan=True) for a, n in zip(got, names))
sys.exit(0 if MESSAGE or same else 1)
"""


def onnx_by_driftline(bug: Bug) -> dict[str, Any]:
    """The whole reduction. `queries` are counted up to the last step that took a node away, since Polygraphy does no
    more; the trail tells what was left after how many."""
    from driftline.checking.checker import Checker
    from driftline.checking.open import open_program
    from driftline.core.case import Case, CheckOptions, Inputs
    from driftline.core.target import Target
    from driftline.diagnose.reduce.reducer import reduce_case
    from driftline.diagnose.reduce.signature import Signature
    from driftline.execute.pool import Pool

    with tempfile.TemporaryDirectory() as folder, Pool() as pool:
        path = Path(folder) / "model.onnx"
        onnx.save(bug.model, str(path))
        options = CheckOptions()
        opened = open_program(str(path), pool, options)
        case = Case(opened.program, (Inputs(bug.inputs, "fixed"),), (Target.parse("onnxruntime"),), options)
        checker = Checker(pool)
        (result,) = checker.check(case).results
        began = time.monotonic()
        signature = Signature.of_verdict(result.execution, result.verdict)
        found = reduce_case(checker, case, signature, budget=180)
    last = next(step for step in found.steps if step.size.operators == found.after.operators)
    return {
        "case": bug.name,
        "reducer": "driftline",
        "before": len(bug.model.graph.node),
        "left": found.after.operators,
        "inputs": len(found.case.program.inputs),
        "elements": found.after.elements,
        "queries": last.queries + 1,  # and the look at the model itself
        "trail": [[step.queries + 1, step.size.operators, step.size.elements] for step in found.steps],
        "all_queries": found.queries,  # with that look, and with the check of the result
        "seconds": time.monotonic() - began,
        "trouble": "" if found.ended == "1-minimal" else found.ended,
    }


def by_polygraphy(bug: Bug, mode: str) -> dict[str, Any]:
    from driftline.execute.environments import find_environment

    environment = find_environment(["polygraphy"], None)
    if environment is None:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        onnx.save(bug.model, str(home / "model.onnx"))
        np.savez(home / "values.npz", **_values(bug))
        (home / "check.py").write_text(f"MESSAGE = {bug.message!r}\n{CHECK}")
        command = [
            environment.python, "-c", "from polygraphy.tools import main; main()", "debug", "reduce", "model.onnx",
            "-o", "reduced.onnx", "--mode", mode,
            "--check", environment.python, "check.py", "polygraphy_debug.onnx",
        ]  # fmt: skip
        began = time.monotonic()
        trouble = ""
        try:
            done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=LIMIT)
            said = (done.stderr or done.stdout).strip().splitlines()
            if done.returncode:
                trouble = f"ended with {done.returncode}: {said[-1][:80] if said else ''}"
        except subprocess.TimeoutExpired:
            trouble = f"not done after {LIMIT} s"
        seconds = time.monotonic() - began
        asked = len((home / "log").read_text().splitlines()) if (home / "log").exists() else 0
        reduced = home / "reduced.onnx"
        left = onnx.load(str(reduced)) if reduced.exists() else bug.model
    return {
        "case": bug.name,
        "reducer": f"polygraphy {mode}",
        "before": len(bug.model.graph.node),
        "left": len(left.graph.node),
        "inputs": len(left.graph.input),
        "elements": elements(left),
        "queries": asked,
        "all_queries": asked,
        "seconds": seconds,
        "trouble": trouble,
    }


def elements(model: Any) -> int:
    """Of inputs and constants: what a reader of the model has to be given besides its nodes."""
    inputs = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.input]
    return int(sum(np.prod(shape) for shape in (*inputs, *(t.dims for t in model.graph.initializer))))


def _values(bug: Bug) -> dict[str, Any]:
    """What every tensor of the model holds, by the reference evaluator."""
    whole = onnx.ModelProto()
    whole.CopyFrom(bug.model)
    del whole.graph.output[:]
    names = [name for node in whole.graph.node for name in node.output]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    found = ReferenceEvaluator(whole).run(None, bug.inputs)
    return {**bug.inputs, **dict(zip(names, found, strict=True))}
