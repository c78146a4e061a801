"""The part of the peer's benchmark that runs inside NNSmith's own environment; `_nnsmith.py` starts it.

    generate        for every line {"form", "seconds", "nodes", "seed"} on stdin: make programs, answer with one line
    fuzz ARGUMENTS  `nnsmith.fuzz` with these arguments
    plants FOLDER FORM SECONDS SEED  programs for the planted compilers; see `_detection_nnsmith.py`
    unpack FOLDER   the inputs of every report as `inputs.npz`, which needs no NNSmith to be read

NNSmith itself is not changed. One thing is set around it: its call of `torch.onnx.export` means the exporter that was
the only one in its day, and that has to be asked for by now.
"""

from __future__ import annotations

import functools
import json
import logging
import pickle
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch

torch.set_num_threads(1)
torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)


class Maker:
    """Makes programs in one form, as the defaults of `nnsmith.model_gen` have it."""

    def __init__(self, form: str) -> None:
        from nnsmith.abstract.extension import activate_ext
        from nnsmith.backends.factory import BackendFactory
        from nnsmith.materialize import Model
        from nnsmith.narrow_spec import auto_opset

        self.model = Model.init(form, backend_target="cpu")
        self.model.add_seed_setter()
        factory = BackendFactory.init("onnxruntime", target="cpu", optmax=True) if form == "onnx" else None
        self.operators = auto_opset(self.model, factory)
        activate_ext(opset=self.operators, factory=factory)

    def make(self, nodes: int, seed: int) -> Any:
        """One model, with its weights; for ONNX, exported."""
        from nnsmith.graph_gen import model_gen
        from nnsmith.util import set_seed

        set_seed(seed)
        found = model_gen(
            opset=self.operators,
            method="symbolic-cinit",
            seed=seed,
            max_elem_per_tensor=65536,
            max_nodes=nodes,
            timeout_ms=10000,
        )
        model = self.model.from_gir(found.make_concrete())
        model.refine_weights()
        return model

    def run(self, seconds: float, nodes: int, seed: int) -> dict[str, Any]:
        """Programs for so many seconds of processor time: `graph` is the time without writing them down."""
        from nnsmith.graph_gen import model_gen
        from nnsmith.util import set_seed

        made = failed = operators = 0
        graph = whole = 0.0
        reason = ""
        while whole < seconds:
            set_seed(seed + made + failed)
            started = time.process_time()
            try:
                found = model_gen(
                    opset=self.operators,
                    method="symbolic-cinit",
                    seed=seed + made + failed,
                    max_elem_per_tensor=65536,
                    max_nodes=nodes,
                    timeout_ms=10000,
                )
                concrete = found.make_concrete()
                graph += time.process_time() - started
                model = self.model.from_gir(concrete)
                model.refine_weights()  # for ONNX, the export
                whole += time.process_time() - started
                made += 1
                operators += concrete.n_compute_inst()
            except Exception:
                whole += time.process_time() - started
                failed += 1
                reason = traceback.format_exc(limit=-1)
        kinds = len(self.operators)
        return {
            "made": made,
            "failed": failed,
            "reason": reason,
            "operators": operators,
            "graph": graph,
            "whole": whole,
            "kinds": kinds,
        }


def generate() -> None:
    makers: dict[str, Maker] = {}
    answers = sys.stdout
    sys.stdout = sys.stderr  # the exporter is chatty
    for line in sys.stdin:
        asked = json.loads(line)
        form = asked.pop("form")
        if form not in makers:
            makers[form] = Maker(form)
        print(json.dumps(makers[form].run(**asked)), file=answers, flush=True)


def unpack(folder: Path) -> None:
    for report in folder.glob("*/oracle.pkl"):
        with open(report, "rb") as file:
            np.savez(report.with_name("inputs.npz"), **pickle.load(file)["input"])


def main() -> None:
    command = sys.argv.pop(1)
    if command == "generate":
        logging.disable(logging.WARNING)
        generate()
    elif command == "fuzz":
        from nnsmith.cli.fuzz import main as fuzz

        fuzz()
    elif command == "plants":
        logging.disable(logging.WARNING)
        sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
        from _detection_nnsmith import make

        folder, form, seconds, seed = sys.argv[1:]
        make(Maker(form), Path(folder), form, float(seconds), int(seed))
    else:
        unpack(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
