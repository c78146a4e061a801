"""The TensorFlow form of every operator, held against torch and against what the type rule says.

All of them run in one batch in one process, as importing TensorFlow is slow. One dtype of each operator; the slow test
takes all.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Callable, Collection, Sequence

import pytest

from driftline.core.tensors import Array
from driftline.generate.emit_tensorflow import emit_tensorflow
from driftline.generate.graph import Graph
from driftline.generate.operator import Operator
from driftline.generate.table import OPERATORS

from form_exceptions import ABSOLUTE_TF  # isort: skip
from form_runs import Runner, numbers, one_node  # isort: skip
from test_forms import _absolute, _kinds, _told, difference  # isort: skip
from tf_runs import run_in_tensorflow  # isort: skip

pytest.importorskip("torch")
pytest.importorskip("tensorflow")


def test_they_agree_with_torch() -> None:
    _hold_against_torch(lambda op: [op.tf.dtypes[zlib.crc32(op.name.encode()) % len(op.tf.dtypes)]], (0,))  # type: ignore[union-attr]


@pytest.mark.slow
def test_they_agree_with_torch_in_every_dtype() -> None:
    _hold_against_torch(lambda op: op.tf.dtypes if op.tf else (), (0, 1, 2))


def _hold_against_torch(dtypes: Callable[[Operator], Collection[str]], seeds: Sequence[int]) -> None:
    cases: list[tuple[Graph, list[list[Array]]]] = []
    for operator in OPERATORS.values():
        for dtype in dtypes(operator) if operator.tf else ():
            for seed in seeds:
                graph = one_node(operator, dtype, seed, "tf")
                if graph:
                    kinds = [()]
                    if dtype != "bfloat16":  # processors differ about what overflows on the way to a sum of halves
                        kinds.append(_kinds(graph, ("torch", "tf")))
                    cases.append((graph, [numbers(graph, kind, operator.edges, seed) for kind in kinds]))
    tried = {graph.operators[0] for graph, _ in cases}
    assert {name for name, operator in OPERATORS.items() if operator.tf} == tried
    wrong = []
    for (graph, samples), outcome in zip(cases, run_in_tensorflow(cases), strict=True):
        if isinstance(outcome, str):
            wrong.append(f"{_told(graph)}: {outcome}")
            continue
        for inputs, results in zip(samples, outcome, strict=True):
            told = [(t.dtype, t.shape) for t in graph.nodes[0].outputs]
            if [(array.dtype.name, array.shape) for array in results] != told:
                wrong.append(f"{_told(graph)} is said to give {told}")
            elif found := _difference(graph, inputs, results):
                wrong.append(f"{_told(graph)}: {found}")
    assert not wrong, "\n".join(wrong)


def _difference(graph: Graph, inputs: list[Array], results: list[Array]) -> str:
    name = graph.operators[0]
    torch = OPERATORS[name].torch
    if torch is None or graph.leaves[0].type.dtype not in torch.dtypes:
        return ""
    own = max((row.size for row in ABSOLUTE_TF if name in row.operators), default=0.0)
    for want, have in zip(Runner(graph).run("torch", inputs), results, strict=True):
        if found := difference(want, have, max(own, _absolute(name, inputs, want))):
            return found
    return ""


@pytest.mark.parametrize("name", [name for name, operator in OPERATORS.items() if operator.tf])
def test_a_program_is_text_that_names_its_inputs(name: str) -> None:
    """Parameters are constants of the module; what `program` returns fits the arguments of `model`."""
    operator = OPERATORS[name]
    assert operator.tf
    graph = next(made for dtype in operator.tf.dtypes if (made := one_node(operator, dtype, 1, "tf")))
    tree = ast.parse(emit_tensorflow(graph))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert len(functions["model"].args.args) == len(graph.inputs)
    constants = [node for node in tree.body if isinstance(node, ast.Assign)]
    assert len(constants) == len(graph.leaves) - len(graph.inputs)
