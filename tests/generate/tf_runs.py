"""Runs many one-operator graphs in TensorFlow: a script for a process of its own, as torch and TensorFlow crash each
other in one. Reads a pickle of (graph as JSON, samples of inputs) from its input, writes one of outcomes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from driftline.core.tensors import Array
from driftline.generate.graph import Graph

Samples = Sequence[Sequence[Array]]
Outcome = list[list[Array]] | str  # the results of each sample, or what TensorFlow said


def run_in_tensorflow(cases: Sequence[tuple[Graph, Samples]]) -> list[Outcome]:
    """The outcome of each case, from one fresh process."""
    sent = pickle.dumps([(graph.to_json(), samples) for graph, samples in cases])
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    done = subprocess.run([sys.executable, __file__], input=sent, stdout=subprocess.PIPE, env=environment, check=True)
    outcomes: list[Outcome] = pickle.loads(done.stdout)
    return outcomes


def _outcome(graph: Graph, samples: Samples) -> Outcome:
    from driftline.backends.tensorflow import tensor_from_array
    from driftline.generate.emit_tensorflow import emit_tensorflow

    scope: dict[str, Any] = {}
    try:
        exec(emit_tensorflow(graph), scope)
        return [[t.numpy() for t in scope["model"](*map(tensor_from_array, inputs))] for inputs in samples]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]


if __name__ == "__main__":
    given = pickle.load(sys.stdin.buffer)
    sys.stdout.buffer.write(pickle.dumps([_outcome(Graph.from_json(graph), samples) for graph, samples in given]))
