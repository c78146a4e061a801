"""Find a single operator that fails alone. This is tried first, since many bugs are one wrong kernel.

One operator of each kind (two if there are several, since their values differ) is fed with the values of the reference
run. The operators are compiled as one program of independent parts, which takes one compilation; only if that program
fails or is rejected are they tried one by one. Likely operators come first; those that are expensive to compile or only
move elements come last.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from math import prod

from driftline.core.spelling import spelled_alike
from driftline.core.verdict import Kind
from driftline.diagnose.localize.apart import Apart
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf, ProgramNode, short_name
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer

SHARE = 0.25  # of the budget
LEAST = 3  # operators of a program that is worth the question
EACH = 2  # operators of a kind
TOGETHER = 24  # operators in one program
ONE_BY_ONE = 6  # operators at a time, if they cannot be tested in one program
ROOM = 1 << 22  # elements that one program reads
KINDS = (Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE, Kind.WRONG_DTYPE, Kind.WRONG_SHAPE, Kind.ERROR, Kind.CRASH)

_EXPENSIVE = spelled_alike(
    """
    Conv ConvTranspose MatMul Gemm Attention LSTM GRU RNN Einsum Loop Scan If MultiHeadAttention ConvInteger QLinearConv
    scaled_dot_product_attention
    """.split()
)
# These hardly ever compute anything wrong by themselves.
_MOVING = spelled_alike(
    """
    Reshape Transpose Squeeze Unsqueeze Identity Flatten Slice Concat Split Expand Shape Constant Cast Gather
    contiguous getitem getattr to size expand unsqueeze squeeze split chunk view_as reshape_as float
    """.split()
)


def lone_operator(apart: Apart, deadline: float) -> int | None:
    """Return the first operator, in the order of suspicion, that fails alone; None if there is none, or no time
    left.
    """
    if len(apart.operators) < LEAST:
        return None
    try:
        for group in _groups(apart, _ranked(apart)):
            if time.monotonic() > deadline:
                return None
            if (found := _failing(apart, group, deadline)) is not None:
                return found
    except BudgetEnded:
        pass
    return None


def _failing(apart: Apart, group: Sequence[int], deadline: float) -> int | None:
    alone = {number: graph for number in group if (graph := apart.graph([number]))}
    if len(alone) > 1:
        graph, makers = side_by_side(alone)
        reply = apart.search.replies([graph])[0]
        if reply.answer is CandidateAnswer.PASS:
            return None
        named = re.search(r"\d+$", reply.output)
        place = int(named.group()) if named else 0
        if reply.answer is CandidateAnswer.SAME and place < len(makers) and apart.search.fails(alone[makers[place]]):
            return makers[place]
    for start in range(0, len(alone), ONE_BY_ONE):
        some = list(alone)[start : start + ONE_BY_ONE]
        if time.monotonic() > deadline:
            return None
        for number, reply in zip(some, apart.search.replies([alone[n] for n in some]), strict=True):
            if reply.answer is CandidateAnswer.SAME and apart.search.fails(alone[number]):
                return number
    return None


def side_by_side(alone: dict[int, ProgramGraph]) -> tuple[ProgramGraph, list[int]]:
    """Join independent programs into one, and return which program each output belongs to. The inputs are shared;
    intermediate values get new numbers, since one program may compute a value that another reads.
    """
    leaves: dict[int, ProgramLeaf] = {}
    nodes: list[ProgramNode] = []
    outputs: list[int] = []
    makers: list[int] = []
    next_number = 1 + max(n for g in alone.values() for n in (*g.leaf, *g.producers))
    for operator, graph in alone.items():
        leaves |= {number: leaf for number, leaf in graph.leaf.items() if number not in leaves}
        new = {number: next_number + at for at, number in enumerate(graph.producers)}
        next_number += len(new)
        for node in graph.nodes:
            read = tuple(None if n is None else new.get(n, n) for n in node.inputs)
            nodes.append(replace(node, inputs=read, outputs=tuple(new[n] for n in node.outputs)))
        outputs += [new[n] for n in graph.outputs]
        makers += [operator] * len(graph.outputs)
    header = next(iter(alone.values())).header
    return ProgramGraph(tuple(leaves.values()), tuple(nodes), tuple(outputs), header), makers


def _ranked(apart: Apart) -> list[int]:
    """Return one or two operators of each kind. Rare operators come first, since common ones occur in many passing
    programs.
    """
    kinds: dict[Hashable, list[int]] = defaultdict(list)
    common: dict[str, int] = defaultdict(int)
    for number in range(len(apart.operators)):
        kinds[_kind(apart, number)].append(number)
        common[apart.op(number)] += 1
    chosen = [number for alike in kinds.values() for number in dict.fromkeys([alike[0], alike[-1]][:EACH])]
    return sorted(chosen, key=lambda n: (_is_last(apart, n), common[apart.op(n)], n))


def _kind(apart: Apart, number: int) -> Hashable:
    """Return the operator, its attributes, and the dtypes and rough shapes of its operands, as a key."""
    node = apart.run.graph.nodes[apart.operators[number][0]]
    given = []
    for operand in node.operands:
        kind = apart.run.types.get(operand)
        given.append((kind.dtype, tuple(size > 1 for size in kind.shape)) if kind else None)
    return node.op, json.dumps(node.attributes, sort_keys=True), tuple(given)


def _is_last(apart: Apart, number: int) -> bool:
    names = spelled_alike([short_name(apart.op(number))])
    return bool(names & (_EXPENSIVE | _MOVING)) or _elements(apart, number) > ROOM


def _elements(apart: Apart, number: int) -> int:
    read = {n for at in apart.operators[number] for n in apart.run.graph.nodes[at].operands}
    return sum(prod(kind.shape) for n in read if (kind := apart.run.types.get(n)))


def _groups(apart: Apart, ranked: Sequence[int]) -> Iterator[list[int]]:
    """Yield groups of operators in the given order. Operators of the last rank are not grouped with the others."""
    group: list[int] = []
    room, last = ROOM, False
    for number in ranked:
        size = _elements(apart, number)
        if group and (len(group) == TOGETHER or size > room or _is_last(apart, number) != last):
            yield group
            group, room = [], ROOM
        last = _is_last(apart, number)
        group.append(number)
        room -= size
    if group:
        yield group
