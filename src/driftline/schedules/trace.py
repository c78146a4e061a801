"""A trace: a tensor function, its sizes, and the schedule primitives that are applied to it, one after the other.

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
    """The loop above a block, counted from the outside."""

    block: str
    index: int


@dataclass(frozen=True)
class ScheduleStep:
    """One primitive with its arguments; `primitives.py` says what the numbers and the word mean."""

    primitive: str
    blocks: tuple[str, ...] = ()
    loops: tuple[LoopAt, ...] = ()
    numbers: tuple[int | None, ...] = ()
    word: str = ""


@dataclass(frozen=True)
class ModelKernel:
    """A tensor program that TVM made of a model: TVMScript that defines one function, and what its parameters are."""

    text: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Trace:
    """See above. `seed` is that of the inputs, `target` is TVM's. `kernel` is the function when it is none of ours.
    `passes` are TVM's own when there are none; else those that are tried beside the ones without which nothing runs."""

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
        """The same, with no passes but these and those without which nothing runs."""
        return replace(self, passes=names)

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = encode(Trace, self)
        return told

    def dump(self) -> bytes:
        """The bytes that the store keeps: the same trace is the same file."""
        return json.dumps(self.to_json(), indent=1, sort_keys=True).encode()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.dump()).hexdigest()


def read_trace(data: bytes) -> Trace:
    """What `dump` wrote."""
    try:
        return decode(Trace, json.loads(data))
    except (ValueError, RecursionError, WireError) as error:
        raise StoreError(f"This is not a trace of a schedule: {error}.") from error
