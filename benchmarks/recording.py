"""What a recorded call of a script costs: loops of 300 calls under `aot_eager`, with the recorder and without.

    python benchmarks/recording.py

The recorder is the one of `driftline check SCRIPT`, in this process. Time is processor time of one thread, and the
fastest of five loops: other work on the machine only ever adds.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from driftline.scenarios.recorder import CallRecorder

CALLS, LOOPS = 300, 5
MOST = 2.0  # milliseconds for a recorded call of small tensors


@dataclass(frozen=True)
class Cost:
    """Milliseconds of one call in the middle of a loop."""

    name: str
    plain: float
    recorded: float

    @property
    def added(self) -> float:
        return self.recorded - self.plain


def _function() -> Callable[[], object]:
    compiled = torch.compile(lambda x, y: (x @ y).relu() + 1, backend="aot_eager")
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    return lambda: compiled(x, y)


def _module() -> Callable[[], object]:
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    compiled = torch.compile(layers, backend="aot_eager")
    x = torch.randn(4, 8)
    return lambda: compiled(x)


class _Stateful(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.options = {"momentum": 0.1, "names": ["a", "b", "c"]}

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        self.mean.lerp_(x.mean(0), self.options["momentum"])
        return x - self.mean, {"mean": self.mean, "sum": x.sum()}


def _state() -> Callable[[], object]:
    compiled = torch.compile(_Stateful(), backend="aot_eager")
    x = torch.randn(4, 8)
    return lambda: compiled(x)


def _step() -> Callable[[], object]:
    """A call and a backward pass: two events."""
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    compiled = torch.compile(layers, backend="aot_eager")
    x = torch.randn(4, 8)
    return lambda: compiled(x).sum().backward()


WORKLOADS = {"two tensors": (_function, 1), "module": (_module, 1), "state": (_state, 1), "step": (_step, 2)}


def measure(name: str) -> Cost:
    """Time a workload with and without the recorder, per event."""
    make, events = WORKLOADS[name]
    return Cost(name, _milliseconds(make, recorded=False) / events, _milliseconds(make, recorded=True) / events)


def _milliseconds(make: Callable[[], Callable[[], object]], *, recorded: bool) -> float:
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as folder:
        recorder = CallRecorder(Path(folder), __file__, most_events=10**9)
        with recorder.installed() if recorded else nullcontext():
            call = make()
            call()
            seconds = min(_loop(call) for _ in range(LOOPS))
        if recorder.fault:
            raise SystemExit(recorder.fault)
    return 1000 * seconds / CALLS


def _loop(call: Callable[[], object]) -> float:
    began = time.thread_time()
    for _ in range(CALLS):
        call()
    return time.thread_time() - began


def main() -> None:
    torch.set_num_threads(1)
    costs = [measure(name) for name in WORKLOADS]
    print(f"{'an event of':14} {'plain':>9} {'recorded':>9} {'added':>9} {'ratio':>6}")
    for cost in costs:
        ratio = cost.recorded / cost.plain
        print(f"{cost.name:14} {cost.plain:6.2f} ms {cost.recorded:6.2f} ms {cost.added:6.2f} ms {ratio:5.1f}x")
    if (worst := max(costs, key=lambda cost: cost.added)).added > MOST:
        raise SystemExit(f"{worst.name}: a recorded call costs {worst.added:.2f} ms, more than {MOST:g} ms")


if __name__ == "__main__":
    main()
