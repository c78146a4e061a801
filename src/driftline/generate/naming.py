"""Names of failing programs: the pattern of their operators, by their usual names. Bugs are named by these patterns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from driftline.core.identity import WITH_GRADIENT
from driftline.generate.graph import Graph
from driftline.generate.table import OPERATORS
from driftline.generate.transforms import circumstance

# These keep elements and their order, so next to an operator that computes they are not to blame.
_TRANSPARENT = {
    "identity", "clone", "contiguous", "detach", "flatten", "flatten_2d", "reshape", "reshaped_back", "squeeze",
    "squeeze_all", "transposed_twice", "unflatten", "unsqueeze", "view",
}  # fmt: skip
# ONNX operators that mean something else than ours of the same name.
_OTHER_MEANING = {"Flatten", "Gather", "Max", "Mean", "Min", "Scatter", "Sum"}
_VARIANTS = {"div:floor_rounding": "div_floor", "div:trunc_rounding": "div_trunc"}
_WORDS = {"float32": "float", "int32": "int", "complex64": "complex"}


def pattern(graph: Graph) -> str:
    """Return the expression of a small graph without shapes and numbers: `relu(clamp(float))`. Failures with one
    pattern likely have one cause."""
    makers = {number: node for node, span in enumerate(graph.produced()) for number in span}
    computes = any(node.op not in _TRANSPARENT for node in graph.nodes)

    def words(number: int) -> str:
        if number not in makers:
            return _WORDS.get(graph.types()[number].dtype, graph.types()[number].dtype)
        node = graph.nodes[makers[number]]
        if node.op in _TRANSPARENT and computes:
            return words(node.inputs[0])
        return f"{_kind(node.op)}({', '.join(dict.fromkeys(words(argument) for argument in node.inputs))})"

    if len(graph.nodes) > 6:
        names = {_kind(node.op) for node in graph.nodes if node.op not in _TRANSPARENT or not computes}
        dtypes = dict.fromkeys(words(number) for number in range(len(graph.leaves)))
        return f"{'+'.join(sorted(names))}({', '.join(dtypes)})"
    read = {number for node in graph.nodes for number in node.inputs}
    ends = [span[0] for span in graph.produced() if not any(number in read for number in span)]
    return " ".join(("; ".join(dict.fromkeys(words(number) for number in ends)), *circumstances_of(graph)))


def circumstances_of(graph: Graph) -> tuple[str, ...]:
    """Return the gradient and the transformation of a graph, as circumstances in its name."""
    gradient = (WITH_GRADIENT,) if graph.grad else ()
    return (*gradient, circumstance(graph.transform)) if graph.transform else gradient


def operators_named(graph: Graph) -> tuple[str, ...]:
    """Return the operators of a small graph by their usual names, each once, without operators that only pass elements
    on."""
    return _computing([_kind(node.op) for node in graph.nodes])


def _computing(operators: Sequence[str]) -> tuple[str, ...]:
    """Return the operators without those that only pass elements on, unless there are no others."""
    computing = [name for name in operators if name.lower() not in _TRANSPARENT]
    return tuple(dict.fromkeys(computing or operators))


def usual_names(coverage: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the operators of a program without a graph, under the names in the operator table if they are the same,
    without operators that only pass elements on."""
    return _computing([_usual(operator) for operator, _ in coverage])


def _kind(operator: str) -> str:
    """Return the name of the tensor operator for one that takes a number on either side: `sub` for `rsub_scalar`."""
    base = operator.removesuffix("_scalar")
    if base == operator:
        return operator
    return next((name for name in (base, base.removeprefix("r")) if name in OPERATORS), operator)


def named(coverage: Iterable[tuple[str, str]]) -> str:
    """Return the pattern of a program without a graph: its operators with their dtypes."""
    return " > ".join(f"{_usual(operator)}({_WORDS.get(dtype, dtype)})" for operator, dtype in coverage)


def _usual(operator: str) -> str:
    """Return the name of the same operator in the operator table, so that a bug has one name for all generators."""
    if operator in _OTHER_MEANING:
        return operator
    if operator in _VARIANTS:
        return _VARIANTS[operator]
    base = operator.partition(":")[0]  # without the variant name of a test suite
    return _names().get(_squashed(operator)) or _names().get(_squashed(base), operator)


@cache
def _names() -> dict[str, str]:
    return {_squashed(name): name for name in OPERATORS if not name.endswith("_")}  # `_`: in-place operators


def _squashed(name: str) -> str:
    return name.removeprefix("nn.functional.").removeprefix("native_").replace("_", "").lower()
