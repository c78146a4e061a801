"""Generate programs that are large enough to be timed: a few operators of the table on large tensors."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np

from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.program import SourceBundle
from driftline.generate.base import NoProgram
from driftline.generate.blueprint import blueprint
from driftline.generate.graph import Graph
from driftline.generate.naming import pattern
from driftline.generate.operator import Draw
from driftline.generate.random_graph import drawn_graph, resized
from driftline.generate.table import OPERATORS
from driftline.inputs.make import ordinary_array

TARGET_ELEMENTS = 1 << 18  # of the largest value: eager takes some 0.1 ms for one operator on these
MOST_ELEMENTS = 1 << 20
_LENGTHS = (1, 1, 1, 2, 2, 3)
_DTYPES = ("float32", "float32", "float32", "float64", "bfloat16", "int64", "int32")
_TRIES = 20


def candidate(seed: int, number: int) -> Graph | None:
    """Return the program with this number under a seed, or None if no program of a suitable size was found in some
    tries.
    """
    rng = random.Random(f"perf/{seed}/{number}")
    for _ in range(_TRIES):
        dtype = rng.choice(_DTYPES)
        chosen = [rng.choice(_taking(dtype)) for _ in range(rng.choice(_LENGTHS))]
        try:
            drawn = drawn_graph(chosen, "torch", Draw(rng), dtypes=(dtype,))
        except NoProgram:
            continue
        if (large := enlarged(drawn)) is not None and (computed := only_computed(large)) is not None:
            return computed
    return None


def only_computed(graph: Graph) -> Graph | None:
    """Return the graph without outputs that are its own inputs, since eager returns those as they are and a compiler
    has to copy them. None if there is no other output.
    """
    outputs = tuple(number for number in graph.outputs if number >= len(graph.leaves))
    return replace(graph, outputs=outputs) if outputs else None


@cache
def _taking(dtype: str) -> list[str]:
    """Return the torch operators that take a dtype and do not work in place."""
    forms = {name: operator.form("torch") for name, operator in OPERATORS.items() if not operator.inplace}
    return [name for name, form in forms.items() if form and dtype in form.dtypes]


def enlarged(graph: Graph) -> Graph | None:
    """Double the sizes of the inputs until the largest value has enough elements; None if that is impossible."""
    while True:
        largest = max(kind.size for kind in graph.types())
        if largest >= TARGET_ELEMENTS:
            return graph
        grown = _doubled(graph)
        if grown is None:
            return None
        graph = grown


def _doubled(graph: Graph) -> Graph | None:
    """Double the smallest size that can be doubled, so that no single axis dominates; None if there is none."""
    sizes = sorted({size for number in graph.inputs for size in graph.leaves[number].type.shape if size > 1})
    before = max(kind.size for kind in graph.types())
    for size in sizes:
        grown = resized(graph, size, 2 * size, MOST_ELEMENTS)
        if grown is None:
            continue
        largest = max(kind.size for kind in grown.types())
        if before < largest <= MOST_ELEMENTS:
            return grown
    return None


def candidate_case(checker: Checker, graph: Graph, options: CheckOptions) -> Case:
    """Return the graph as a torch program with random inputs."""
    made = blueprint(graph, "torch")
    assert isinstance(made.content, str)
    bundle = SourceBundle("program.py", "program", {"program.py": made.content})
    words = pattern(graph)
    opened = open_source(bundle, checker.pool, options, name=words)
    program = replace(opened.program, operators=graph.operators, pattern=words)
    rng = np.random.default_rng(options.seed)
    arrays = {plan.spec.name: ordinary_array(plan, rng) for plan in made.inputs}
    return Case(program, (Inputs(arrays, f"random seed={options.seed}"),), (), options)
