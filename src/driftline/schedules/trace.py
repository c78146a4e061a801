"""A trace: a tensor function, its sizes, and the schedule primitives that are applied to it in turn.

Blocks go by their names and loops by their place above a block, both at the time of the step. So every step can be
written as one line of Python by itself, and steps can be left out without rewriting the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from driftline.core.errors import StoreError
from driftline.core.wire import WireError, decode, encode

RANDOM, META = "random", "meta"  # where steps are drawn from: our table, or the search spaces of TVM's tuner


@dataclass(frozen=True)
class LoopAt:
    """A loop above a block, by its index counted from the outermost."""

    block: str
    index: int


@dataclass(frozen=True)
class ScheduleStep:
    """One primitive with its arguments; `primitives.py` defines the meaning of the numbers and the word."""

    primitive: str
    blocks: tuple[str, ...] = ()
    loops: tuple[LoopAt, ...] = ()
    numbers: tuple[int | None, ...] = ()
    word: str = ""


@dataclass(frozen=True)
class ModelKernel:
    """A tensor program that TVM made of a model: TVMScript of one function, and the names of inputs and outputs."""

    text: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """A function, its sizes and its steps. `seed` is for the inputs, `target` is TVM's, `kernel` holds the function of
    a model. `passes`: None for TVM's default pipeline, else the passes added to the plain pipeline."""

    function: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[ScheduleStep, ...] = ()
    target: str = "llvm"
    seed: int = 0
    kernel: ModelKernel | None = None
    passes: tuple[str, ...] | None = None

    @property
    def primitives(self) -> tuple[str, ...]:
        return tuple(step.primitive for step in self.steps)

    def with_steps(self, steps: tuple[ScheduleStep, ...]) -> Trace:
        return replace(self, steps=steps)

    def with_passes(self, *names: str) -> Trace:
        """Return the trace with these passes added to the plain pipeline."""
        return replace(self, passes=names)

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = encode(Trace, self)
        return told

    def dump(self) -> bytes:
        """Return the bytes that the store keeps; equal traces give equal bytes."""
        return json.dumps(self.to_json(), indent=1, sort_keys=True).encode()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.dump()).hexdigest()


def read_trace(data: bytes) -> Trace:
    """Read a trace from the bytes that `dump` returned."""
    try:
        return decode(Trace, json.loads(data))
    except (ValueError, RecursionError, WireError) as error:
        raise StoreError(f"This is not a trace of a schedule: {error}.") from error
