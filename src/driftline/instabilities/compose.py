"""Compose small models from given operators: every sequence of a given length, as a chain or a small graph.

A sequence has up to three arrangements. In a *chain* an operator with two operands takes the previous result and a new
input; *reuse* gives it the model's first input instead; *fork* ends with an operator that joins two branches, both of
which start at the first input.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from driftline.core.errors import DriftlineError
from driftline.core.text import plural
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.operator import Invalid
from driftline.generate.table import OPERATORS
from driftline.instabilities.operations import Composable, names_of

MOST = 20_000  # models of one call
DTYPES = ("float32", "float16", "bfloat16", "float64")


class Arrangement(StrEnum):
    """How the operators of a sequence are connected; see the module docstring."""

    CHAIN = "chain"
    REUSE = "reuse"
    FORK = "fork"


@dataclass(frozen=True)
class Composition:
    """A composed model that is not yet written to files."""

    name: str
    expression: str
    operators: tuple[str, ...]
    arrangement: Arrangement
    graph: Graph


USUAL = TensorType("float32", (16, 8))


def compose(
    operations: Sequence[Composable],
    length: int,
    *,
    least: int | None = None,
    every: bool = False,
    tensor: TensorType = USUAL,
    seed: int = 0,
) -> list[Composition]:
    """Return every model (`every`), or at least `least` of them, ten by default, so that each operator is used. Inputs
    have the type `tensor`. The same arguments give the same models."""
    if every:
        _require_few(operations, length)
    found = list(_made(_sequences(operations, length, seed), tensor))
    if least is not None and len(found) < least:
        raise DriftlineError(
            f"--min-count {least}: {names_of(operations)} at length {length} make only {plural(len(found), 'model')}"
            " that can be written as torch and ONNX. Lower it, raise --length, or name more operators."
        )
    if not found:
        raise DriftlineError(f"{names_of(operations)} at length {length}: no model can be written in {tensor.dtype}.")
    if every:
        return found
    return _chosen(found, min(10 if least is None else least, len(found)), seed)


def _require_few(operations: Sequence[Composable], length: int) -> None:
    count = len(operations) ** length
    if count > MOST:
        raise DriftlineError(
            f"{len(operations)} operators at length {length} are {count:,} sequences, and --all makes at most {MOST:,}."
            " Leave out --all, lower --length, or name fewer operators."
        )


def _chosen(found: Sequence[Composition], count: int, seed: int) -> list[Composition]:
    """Choose `count` models, or more if needed to include every operator. Keeps the order of `found`."""
    order = list(range(len(found)))
    random.Random(seed).shuffle(order)
    seen: set[str] = set()
    first: list[int] = []
    rest: list[int] = []
    for number in order:
        new = set(found[number].operators) - seen
        seen |= new
        (first if new else rest).append(number)
    return [found[number] for number in sorted([*first, *rest][: max(count, len(first))])]


def _sequences(operations: Sequence[Composable], length: int, seed: int) -> Iterator[tuple[Composable, ...]]:
    """Return all operator sequences of a length, or a random sample if there are more than `MOST`."""
    if len(operations) ** length <= MOST:
        return itertools.product(operations, repeat=length)
    rng = random.Random(seed)
    return (tuple(rng.choices(operations, k=length)) for _ in range(MOST // 4))


def _made(sequences: Iterator[tuple[Composable, ...]], base: TensorType) -> Iterator[Composition]:
    made: set[str] = set()
    for sequence in sequences:
        for arrangement in Arrangement:
            composition = _composed(sequence, arrangement, base)
            if composition and composition.expression not in made:
                made.add(composition.expression)
                yield composition


def _composed(sequence: Sequence[Composable], arrangement: Arrangement, base: TensorType) -> Composition | None:
    """Return the model, or None if the sequence does not allow the arrangement or torch or ONNX lacks an operator."""
    builder = _CompositionBuilder(base)
    try:
        match arrangement:
            case Arrangement.CHAIN:
                at = builder.chain(builder.input(), sequence, fresh=True)
            case Arrangement.REUSE:
                at = builder.chain(builder.input(), sequence, fresh=False)
            case Arrangement.FORK:
                if len(sequence) < 3 or sequence[-1].operands != 2:
                    return None
                half = (len(sequence) - 1) // 2
                first = builder.input()
                branches = [
                    builder.chain(first, part, fresh=False) for part in (sequence[:half], sequence[half:-1]) if part
                ]
                at = builder.apply(sequence[-1], branches)
    except Invalid:
        return None
    names = tuple(operation.name for operation in sequence)
    suffix = "" if arrangement is Arrangement.CHAIN else f"-{arrangement}"
    return Composition("-".join(names) + suffix, builder.text(at), names, arrangement, builder.graph(at))


class _CompositionBuilder:
    """Builds a graph step by step. Until it is finished, negative numbers are inputs and others are results, since
    results are numbered after the inputs and the number of inputs is not known yet."""

    def __init__(self, base: TensorType) -> None:
        self._base = base
        self._leaves: list[Leaf] = []
        self._nodes: list[Node] = []
        self._texts: list[str] = []

    def input(self) -> int:
        return self._leaf("input", self._base)

    def _leaf(self, kind: str, of: TensorType) -> int:
        self._leaves.append(Leaf(kind, of, seed=len(self._leaves)))
        return -len(self._leaves)

    def chain(self, at: int, sequence: Sequence[Composable], *, fresh: bool) -> int:
        """Apply the operators one after the other from value `at`. Further operands are new inputs if `fresh`, else the
        value `at`."""
        start = at
        for operation in sequence:
            others = [self.input() if fresh else start for _ in range(operation.operands - 1)]
            at = self.apply(operation, [at, *others])
        return at

    def apply(self, operation: Composable, inputs: Sequence[int]) -> int:
        """Add the operator and return the number of its result. Raises Invalid if torch or ONNX does not support it."""
        row = OPERATORS[operation.row]
        types = [self._type(number) for number in inputs]
        if not all(row.takes(language, types[0]) for language in ("torch", "onnx")):
            raise Invalid("not in every language")
        (result,) = row.infer(types, operation.attributes)
        self._nodes.append(Node(operation.row, tuple(inputs), (result,), operation.attributes))
        self._texts.append(f"{operation.name}({', '.join(self.text(number) for number in inputs)})")
        return len(self._nodes) - 1

    def _type(self, number: int) -> TensorType:
        return self._leaves[-number - 1].type if number < 0 else self._nodes[number].outputs[0]

    def text(self, number: int) -> str:
        return f"x{-number - 1}" if number < 0 else self._texts[number]

    def graph(self, output: int) -> Graph:
        """Return the finished graph with `output` as its output."""

        def settled(number: int) -> int:
            return -number - 1 if number < 0 else len(self._leaves) + number

        nodes = [Node(node.op, tuple(map(settled, node.inputs)), node.outputs, node.attributes) for node in self._nodes]
        return Graph(tuple(self._leaves), tuple(nodes), (settled(output),))
