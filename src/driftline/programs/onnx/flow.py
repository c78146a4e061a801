"""Follows the inputs of an ONNX model, to find out which of them are indices, masks, positions, lengths or sizes.

Each input is followed through operators that pass its values on (Cast, Reshape, Slice, Add of a constant, ...) to
operators that show what the values mean. The results are facts; `onnx/ranges.py` derives rules from them. Sizes that
the graph reads from its own shapes are followed in the same way: if `Range(0, sequence)` indexes a table of 512 rows,
the sequence has at most 512 elements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from driftline.programs.onnx.shapes import OpenShape, OpenSize

MASKED = -1e3  # added to a score, or replaces it, so that its softmax becomes zero


@dataclass(frozen=True)
class Flow:
    """A value derived from an input: shifted by constants between `low` and `high`, and changed as `state` says."""

    source: str
    low: int = 0
    high: int = 0
    state: str = "plain"  # plain, float, scaled (times a constant), complement (1 - x), flag (a comparison's result)
    inverted: bool = False  # the flag is true where the input is zero


@dataclass(frozen=True)
class Bound:
    """Values must lie in [low, high + size), where `size` is a number or the name of a dimension."""

    low: int
    high: int
    size: int | str
    why: str


@dataclass
class Facts:
    """The facts found about each input, and about the sizes of dimensions."""

    bounds: dict[str, list[Bound]] = field(default_factory=lambda: defaultdict(list))
    kinds: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # kind: why
    limits: dict[str, int] = field(default_factory=dict)  # the largest size of a dimension

    def note(self, flows: Sequence[Flow], kind: str, why: str) -> None:
        for flow in flows:
            self.kinds[flow.source].setdefault(kind, why)

    def limit(self, dimension: str, size: OpenSize) -> None:
        if isinstance(size, int) and size > 0:
            self.limits[dimension] = min(size, self.limits.get(dimension, size))


class Walk:
    """The knowledge about the tensors of a model while its nodes are visited in order (`onnx/walk.py`)."""

    def __init__(
        self, shapes: dict[str, OpenShape], constants: dict[str, Any], facts: Facts, weights: set[str]
    ) -> None:
        self.shapes = shapes
        self.constants = constants  # small ones, by name
        self.weights = weights  # names of everything that is constant
        self.facts = facts
        self.flows: dict[str, tuple[Flow, ...]] = {}
        self.sizes: dict[str, tuple[OpenSize, ...]] = {}  # tensors that hold sizes of dimensions
        self.spans: dict[str, str] = {}  # tensors that count from 0 up to a dimension

    def alias(self, name: str, known: str) -> None:
        """Give a tensor everything that is known about another."""
        tables: tuple[dict[str, Any], ...] = (self.flows, self.sizes, self.spans, self.shapes, self.constants)
        for table in tables:
            if known in table and name not in table:
                table[name] = table[known]
        if known in self.weights:
            self.weights.add(name)

    # -- what operators ask ------------------------------------------------------------------------------------------

    def flow(self, name: str) -> tuple[Flow, ...]:
        return self.flows.get(name, ())

    def put(self, name: str, flows: Sequence[Flow]) -> None:
        if flows:
            self.flows[name] = tuple(dict.fromkeys((*self.flows.get(name, ()), *flows)))

    def number(self, name: str) -> float | None:
        """Return the number that a constant holds in all its elements, or None."""
        array = self.constants.get(name)
        if array is None or array.dtype.kind not in "iufb" or not array.size:
            return None
        first = float(array.reshape(-1)[0])
        return first if (array == array.reshape(-1)[0]).all() else None

    def size_of(self, name: str) -> OpenSize:
        """Return the single size that a tensor of sizes holds, or None."""
        held = self.sizes.get(name)
        if held is not None and len(held) == 1:
            return held[0]
        number = self.number(name)
        return int(number) if number is not None and number == int(number) else None

    def axis(self, name: str, axis: int) -> OpenSize:
        shape = self.shapes.get(name)
        if shape is None or not -len(shape) <= axis < len(shape):
            return None
        return shape[axis]

    def index(self, name: str, size: OpenSize, why: str) -> None:
        """Note that the values of a tensor are indices into something of that size."""
        if name in self.spans and isinstance(size, int):
            self.facts.limit(self.spans[name], size)
        if size is None:
            return
        for flow in self.flow(name):
            if flow.state == "plain":
                self.facts.bounds[flow.source].append(Bound(-flow.low, -flow.high, size, why))

    def changed(self, name: str, state: str) -> tuple[Flow, ...]:
        return tuple(replace(flow, state=state) for flow in self.flow(name))
