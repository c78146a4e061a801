"""Facts about a graph that constraints read: plain values, without torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

INPUT = "input"  # the operator of a graph's inputs, parameters among them
OUTPUT = "output"


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's program."""

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f": {self.code}" if self.code else "")


@dataclass(frozen=True)
class TensorFacts:
    """A tensor of a graph. A symbolic size has the value that it has for the example inputs."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    itemsize: int = 4
    storage: int = 0  # the same number: the same memory, as a view and its base have
    storage_bytes: int = 0
    formats: tuple[str, ...] = ("contiguous",)  # the memory formats that its strides fit

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * self.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class NodeFacts:
    """One node: an input, a call, or the output."""

    name: str
    operator: str  # as in "aten.mm", "torch.matmul", "Tensor.view"; "input" and "output"
    inputs: tuple[TensorFacts, ...] = ()
    outputs: tuple[TensorFacts, ...] = ()
    arguments: tuple[str, ...] = ()  # names of the nodes that it reads
    source: SourceLine | None = None
    reduced: int = 0  # how many elements go into one element of the result, where it is a reduction or a product
    passes_on: bool = False  # selects one of several results: its tensors belong to another node
    unread: tuple[int, ...] = ()  # unread outputs, such as the logarithms that attention keeps for a backward

    @property
    def short(self) -> str:
        """The last part of the operator's name: `mm` for `aten.mm`."""
        return self.operator.rpartition(".")[2]

    @property
    def results(self) -> tuple[TensorFacts, ...]:
        """The outputs that another node reads."""
        return tuple(tensor for at, tensor in enumerate(self.outputs) if at not in self.unread)

    @property
    def is_call(self) -> bool:
        return self.operator not in (INPUT, OUTPUT)

    def matches(self, patterns: tuple[str, ...]) -> bool:
        """True if a pattern matches the operator: its full name, its short one, or that without leading underscores.
        `*` is a wildcard."""
        names = {self.operator, self.short, self.short.strip("_")}
        return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


@dataclass(frozen=True)
class GraphFacts:
    """The facts about one graph that a compiler is given."""

    name: str  # as in "graph 0", "graph 0 forward"
    nodes: tuple[NodeFacts, ...]

    def calls(self) -> Iterator[NodeFacts]:
        return (node for node in self.nodes if node.is_call and not node.passes_on)

    def operators(self) -> dict[str, int]:
        return dict(Counter(node.operator for node in self.calls()).most_common())

    def dtypes(self) -> dict[str, int]:
        """Return the number of tensors of each dtype."""
        made = [tensor.dtype for node in self.nodes if not node.passes_on for tensor in node.outputs]
        return dict(Counter(made).most_common())
