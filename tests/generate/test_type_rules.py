"""Type rules on what a mutation may leave behind: attributes and inputs that do not fit each other.

What a rule accepts becomes a program, and what a reference makes of a program that is not valid would be held against
compilers that refuse it or read it in another way.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from driftline.diagnose.reduce.generated import in_plainer_dtypes
from driftline.generate.emit_onnx import emit_onnx
from driftline.generate.graph import Graph, TensorType
from driftline.generate.operator import Draw, Invalid, Operator
from driftline.generate.table import OPERATORS

from form_runs import Runner, numbers, one_node  # isort: skip

pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

FAR = 9
SHAPE = (2, 3, 4, 5)


def _first(operator: Operator) -> TensorType | None:
    """An input that the operator takes."""
    for language in ("torch", "onnx", "jnp"):
        form = operator.form(language)
        for rank in range(len(SHAPE), 0, -1):
            first = TensorType(form.dtypes[0], SHAPE[:rank]) if form else None
            if first and operator.takes(language, first):
                return first
    return None


def _drawn(operator: Operator) -> tuple[TensorType, dict[str, object]] | None:
    """For operators of one input that work along an axis: that input, and attributes that fit it."""
    first = _first(operator)
    if first is None:
        return None
    try:
        needs, attributes = operator.draw(Draw(random.Random(0)), first)
    except Invalid:
        return None
    return (first, attributes) if not needs and isinstance(attributes.get("axis"), int) else None


ALONG = {name: drawn for name, operator in OPERATORS.items() if (drawn := _drawn(operator))}


def test_there_are_many() -> None:
    assert len(ALONG) > 30


@pytest.mark.parametrize("name", ALONG)
def test_an_axis_that_is_not_there_is_refused(name: str) -> None:
    first, attributes = ALONG[name]
    assert OPERATORS[name].infer([first], attributes)
    with pytest.raises(Invalid):
        OPERATORS[name].infer([first], {**attributes, "axis": FAR})


def _others(kind: TensorType) -> Iterator[TensorType]:
    """Another dtype; one axis more or less, another size, other orders."""
    yield from (kind.with_dtype(dtype) for dtype in ("float32", "float16", "int64", "uint8", "bool"))
    shape = kind.shape
    made = {shape[1:], shape[::-1]} | ({(1, *shape), (*shape, 1)} if kind.rank < 4 else set())
    for axis, size in enumerate(shape):
        made |= {(*shape[:axis], other, *shape[axis + 1 :]) for other in (1, size + 1)}
    yield from (kind.with_shape(other) for other in sorted(made - {shape}))


def _changed(graph: Graph, language: str) -> Iterator[Graph]:
    """The graph with one input of another type, where the rule accepts that."""
    (node,) = graph.nodes
    operator = OPERATORS[node.op]
    chosen = any(":" in leaf.values for leaf in graph.leaves)  # indices, which may lie beyond a smaller tensor
    for place, leaf in enumerate(graph.leaves):
        for kind in _others(leaf.type) if place or not chosen else ():
            leaves = [replace(one, type=kind) if at == place else one for at, one in enumerate(graph.leaves)]
            try:
                if not place and not operator.takes(language, kind):
                    continue
                outputs = tuple(operator.infer([one.type for one in leaves], node.attributes))
            except Invalid:
                continue
            if len(outputs) == len(node.outputs):
                yield replace(graph, leaves=tuple(leaves), nodes=(replace(node, outputs=outputs),))


# The evaluator of ONNX knows no groups with several outputs each.
UNKNOWN = {("onnx", "conv_transpose1d_depthwise"), ("onnx", "conv_transpose2d_depthwise")}


@pytest.mark.parametrize("name", OPERATORS)
def test_what_a_rule_accepts_is_a_program(name: str) -> None:
    for language in ("torch", "onnx"):
        form = OPERATORS[name].form(language)
        for seed in (0, 1) if form and (language, name) not in UNKNOWN else ():
            graph = one_node(OPERATORS[name], form.dtypes[0], seed, language)  # type: ignore[union-attr]
            for changed in _changed(graph, language) if graph else ():
                told = [(kind.dtype, kind.shape) for kind in changed.nodes[0].outputs]
                shapes = [leaf.type.shape for leaf in changed.leaves]
                try:
                    results = Runner(changed).run(language, numbers(changed, (), (), seed))
                except IndexError:  # an index that is now about another axis
                    continue
                given = [(array.dtype.name, array.shape) for array in results]
                assert given == told, f"{language} {name} {shapes} {changed.nodes[0].attributes}"


def _in_plainer_dtypes(graph: Graph) -> Iterator[Graph]:
    """What triage makes of a failing program, where the rule accepts it."""
    (node,) = graph.nodes
    operator = OPERATORS[node.op]
    for changed, _, _ in in_plainer_dtypes(graph):
        types = [leaf.type for leaf in changed.leaves]
        with contextlib.suppress(Invalid):
            if operator.takes("onnx", types[0]):
                yield replace(changed, nodes=(replace(node, outputs=tuple(operator.infer(types, node.attributes))),))


@pytest.mark.parametrize("name", [name for name, operator in OPERATORS.items() if operator.onnx])
def test_models_are_valid_by_the_types_of_the_standard(name: str) -> None:
    """Also in plainer dtypes: ScatterND and GatherND, for one, take no int32 for indices."""
    for dtype in OPERATORS[name].onnx.dtypes:  # type: ignore[union-attr]
        graph = one_node(OPERATORS[name], dtype, 0, "onnx")
        for one in (graph, *_in_plainer_dtypes(graph)) if graph else ():
            onnx.checker.check_model(onnx.load_model_from_string(emit_onnx(one)), full_check=True)
