"""What a judgement costs, against the unoptimised run of the same program in the same process.

Everything runs in one thread and is measured in processor time: on a busy machine the clock on the wall tells more
about the neighbours than about the oracle.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from driftline.core.tensors import Arrays
from driftline.oracle.rule import JudgedOutputs, ShadowAnswer, judge_outputs
from driftline.oracle.shadow.task import ask_shadow
from driftline.oracle.shadow.torch.shadow import TorchShadow, record
from driftline.programs.torch_tensors import array_from_tensor

LAYERS, WIDTH, BATCH = 6, 1024, 64
CHAINS = (10, 20, 40, 80, 160)
GRAPHS = 40
# Small operators on square matrices that keep their shape and size.
OPERATORS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "matrix product": lambda x, y: x @ y / x.shape[-1] ** 0.5,
    "relu": lambda x, y: F.relu(x),
    "tanh": lambda x, y: torch.tanh(x),
    "gelu": lambda x, y: F.gelu(x),
    "softmax": lambda x, y: torch.softmax(x, -1),
    "layer norm": lambda x, y: F.layer_norm(x, x.shape[-1:]),
    "mean": lambda x, y: x - x.mean(0, keepdim=True),
    "transpose": lambda x, y: x.transpose(0, 1) + y,
}


@dataclass(frozen=True)
class Cost:
    mlp_ratio: float  # eight samples of a 6x1024 MLP, in unoptimised runs
    mlp_seconds: float
    graph_median: float  # seconds for a judgement with sixteen samples of a graph of ten small operators
    graph_worst: float
    per_operator: dict[int, float]  # length of a chain -> seconds for each operator


def measure_cost() -> Cost:
    ratio, seconds = _mlp()
    graphs = [_judgement(*_random_graph(10, seed), runs=16) for seed in range(GRAPHS)]
    # The fastest of a few rounds: other work on the machine only ever adds.
    chains = {length: min(_judgement(*_chain(length), runs=16) for _ in range(5)) / length for length in CHAINS}
    return Cost(ratio, seconds, statistics.median(graphs), max(graphs), chains)


def _timed(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _mlp() -> tuple[float, float]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, WIDTH, generator=generator)
    weights = [torch.randn(WIDTH, WIDTH, generator=generator) * (2 / WIDTH) ** 0.5 for _ in range(LAYERS)]

    def run() -> dict[str, torch.Tensor]:
        y = x
        for weight in weights:
            y = F.relu(y @ weight)
        return {"output": y}

    run()
    rounds = []
    for _ in range(5):  # side by side, so that both meet the same load
        eager = statistics.median(_timed(run) for _ in range(5))
        rounds.append((eager, _timed(lambda: ask_shadow(TorchShadow(record(run)), 8, None))))
    return statistics.median(shadow / eager for eager, shadow in rounds), statistics.median(s for _, s in rounds)


Run = Callable[[], dict[str, torch.Tensor]]


def _random_graph(length: int, seed: int) -> tuple[Run, Arrays]:
    choose = random.Random(seed)
    names = [choose.choice(list(OPERATORS)) for _ in range(length)]
    reach = [choose.random() for _ in range(length)]
    return _graph(names, reach, seed)


def _chain(length: int) -> tuple[Run, Arrays]:
    names = ["matrix product", "tanh", "add", "multiply", "relu"]
    return _graph([names[i % len(names)] for i in range(length)], [0.0] * length, 0)


def _graph(names: list[str], reach: list[float], seed: int) -> tuple[Run, Arrays]:
    """Each operator works on the last result and on an earlier one."""
    inputs = torch.randn(2, 16, 16, generator=torch.Generator().manual_seed(seed))

    def run() -> dict[str, torch.Tensor]:
        values = list(inputs)
        for name, share in zip(names, reach, strict=True):
            values.append(OPERATORS[name](values[-1], values[int(share * (len(values) - 1))]))
        return {"output": values[-1]}

    # Something other than the unoptimised result, or the judgement would end before it began.
    outputs = {name: array_from_tensor(value) for name, value in run().items()}
    return run, {name: np.nextafter(array, np.float32(np.inf)) for name, array in outputs.items()}


def _judgement(run: Run, got: Arrays, runs: int) -> float:
    """From the program to the verdict: recording, the float64 result, all samples, the statistics."""

    def work() -> JudgedOutputs:
        native = {name: array_from_tensor(value) for name, value in run().items()}
        tape = record(run)
        exact = TorchShadow(tape).reference()

        def ask(wanted: int, outputs: Arrays | None) -> ShadowAnswer:
            return ask_shadow(TorchShadow(tape), runs, outputs)

        return judge_outputs(got, native, exact, ask, thorough=True)

    return _timed(work)
