"""Programs from the node tests of ONNX: the models with which the standard tests its own operators.

In a pair, the first result of one test is the input of a test with a single input of that type. Tests are joined only
if no operator changed between their two versions of the standard, so that both keep their meaning.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import compose, helper, numpy_helper

from driftline.core.tensors import DTYPES, Array, spec_of
from driftline.generate.base import Blueprint, NoProgram
from driftline.inputs.plan import InputPlan
from driftline.programs.onnx.pool import quick_pooling

PAIRS = "pairs"
_MOST_ELEMENTS = 1 << 15
_TRIES = 8

_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_LEFT_OUT = _RANDOM | {"ImageDecoder"}  # files as inputs
_UNARY = {
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf",
    "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not",
    "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
    "Swish", "Tan", "Tanh", "ThresholdedRelu",
}  # fmt: skip

# Later inputs that are data too; elsewhere they are shapes, axes and counts.
_DATA = {
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Concat", "ConvInteger", "Equal", "Gather",
    "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMul", "MatMulInteger", "Max",
    "Min", "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
}  # fmt: skip
# Nothing of their inputs is free: they are shapes, boxes, thresholds or conditions.
_PARAMETERS = {
    "AffineGrid", "BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow", "If", "Loop", "MaxRoiPool",
    "MelWeightMatrix", "NonMaxSuppression", "Range", "RoiAlign", "Scan",
}  # fmt: skip
# Floats after the first that are scales, limits or places.
_SCALED = {
    "DequantizeLinear", "QuantizeLinear", "QLinearConv", "QLinearMatMul", "Resize", "Upsample", "Dropout", "OneHot",
    "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "DeformConv", "GridSample",
}  # fmt: skip

# The size of their results depends on the input values, so the size in the test's model holds only for its own inputs.
_SIZED_BY_NUMBERS = {"Compress", "NonZero", "Unique"}


@dataclass(frozen=True)
class NodeTest:
    """A model with its test inputs and expected results."""

    name: str
    operator: str
    model: onnx.ModelProto
    inputs: dict[str, Array]
    outputs: tuple[Array, ...]
    nodes: frozenset[str]  # the operators in it
    version: int  # of the standard


@lru_cache(1)
def node_tests() -> dict[str, list[NodeTest]]:
    """Return the usable tests by operator. Importing them takes a second, since onnx computes all of them."""
    with warnings.catch_warnings(), quick_pooling(), _without_snippets():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        cases = {case.name: case for case in load_model_tests(kind="node")}
    found: dict[str, list[NodeTest]] = {}
    for name, case in sorted(cases.items()):
        # An operator that the standard defines as a function is tested a second time, taken apart.
        whole = cases.get(re.sub(r"_expanded(_ver\d+)?$", "", name), case)
        test = _usable(case, whole.model.graph.node[0].op_type)
        if test:
            found.setdefault(test.operator, []).append(test)
    return dict(sorted(found.items()))


@contextmanager
def _without_snippets() -> Iterator[None]:
    """Keep onnx from looking up the source text of each test while importing, which takes as long as everything
    else."""
    from onnx.backend.test.case import base

    before = base.process_snippet
    base.process_snippet = lambda op_name, name, export: (name, "")
    try:
        yield
    finally:
        base.process_snippet = before


def onnx_arms() -> list[str]:
    return [*node_tests(), PAIRS]


def make_onnx(arm: str, seed: str, avoid: Set[str] = frozenset()) -> Blueprint:
    """Return the model of an operator, of a pair `A>B`, or of a pair that the seed chooses."""
    rng, tests = random.Random(f"{arm}/{seed}"), node_tests()
    first, _, second = arm.partition(">")
    for _ in range(_TRIES):
        name = rng.choice(list(tests)) if first == PAIRS else first
        choice = _not_avoided(tests.get(name, []), avoid)
        if not choice:
            continue
        test = rng.choice(choice)
        if name == arm:
            return _finished(test, test.model, (name,), (_first_dtype(test),))
        followers = [t for t in _not_avoided(_followers(test), avoid) if second in ("", t.operator)]
        if followers:
            # by operator first: some have a hundred tests, others one
            chosen = rng.choice(sorted({t.operator for t in followers}))
            return _joined(test, rng.choice([t for t in followers if t.operator == chosen]))
    raise NoProgram(f"{arm} has no node test")


def _not_avoided(tests: list[NodeTest], avoid: Set[str]) -> list[NodeTest]:
    return [test for test in tests if f"{test.operator} {_first_dtype(test)}" not in avoid] if avoid else tests


def _usable(case: Any, operator: str) -> NodeTest | None:
    """Return the test, or None if it cannot be compared or executed: sequences, strings, random numbers, other
    domains."""
    graph = case.model.graph
    nodes = list(_all_nodes(graph))
    if any(node.domain or node.op_type in _LEFT_OUT for node in nodes) or "training_dropout" in case.name:
        return None
    given, expected = case.data_sets[0]
    if not graph.input or len(given) != len(graph.input):
        return None
    arrays = [_array(value, info) for value, info in zip(given, graph.input, strict=True)]
    results = [_array(value, info) for value, info in zip(expected, graph.output, strict=False)]
    if any(array is None for array in [*arrays, *results]):
        return None
    inputs = {info.name: array for info, array in zip(graph.input, arrays, strict=True) if array is not None}
    if sum(array.size for array in inputs.values()) > _MOST_ELEMENTS:
        return None
    return NodeTest(
        name=case.name,
        operator=operator,
        model=case.model,
        inputs=inputs,
        outputs=tuple(array for array in results if array is not None),
        nodes=frozenset(node.op_type for node in nodes),
        version=max(entry.version for entry in case.model.opset_import if not entry.domain),
    )


def _all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)


def _array(value: Any, info: onnx.ValueInfoProto) -> Array | None:
    """Return the value as an array, or None if it is not a tensor of the declared dtype or the dtype is not
    supported."""
    if isinstance(value, onnx.TensorProto):
        if value.data_type == onnx.TensorProto.STRING:
            return None
        value = numpy_helper.to_array(value)
    if not isinstance(value, (np.ndarray, np.generic)) or info.type.WhichOneof("value") != "tensor_type":
        return None
    array = np.asarray(value)
    declared = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    return array if array.dtype.name in DTYPES and array.dtype == declared else None


def _plan(operator: str, position: int, name: str, array: Array) -> InputPlan:
    return InputPlan(spec_of(name, array), _rule(operator, position, array), array)


def _rule(operator: str, position: int, array: Array) -> str:
    if operator in _PARAMETERS:
        return "exact"
    later = position > 0 and operator not in _DATA
    if array.dtype == bool:
        return "exact" if later and not array.ndim else "any"
    if array.dtype.kind in "iu":
        if operator in ("Div", "Mod"):
            return "nonzero" if position else "like"
        return "exact" if later else "like"
    return "like" if position and operator in _SCALED else "any"


def _first_dtype(test: NodeTest) -> str:
    return next(iter(test.inputs.values())).dtype.name


def _finished(test: NodeTest, model: onnx.ModelProto, operators: tuple[str, ...], dtypes: tuple[str, ...]) -> Blueprint:
    plans = [_plan(test.operator, at, name, array) for at, (name, array) in enumerate(test.inputs.items())]
    return Blueprint(
        form="onnx",
        content=_honest(model).SerializeToString(deterministic=True),
        inputs=tuple(plans),
        operators=operators,
        coverage=tuple(zip(operators, dtypes, strict=True)),
        example=dict(test.inputs),
    )


def _honest(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without result sizes if they depend on the numbers in its inputs."""
    if not any(node.op_type in _SIZED_BY_NUMBERS for node in _all_nodes(model.graph)):
        return model
    open_sized = onnx.ModelProto()
    open_sized.CopyFrom(model)
    del open_sized.graph.value_info[:]
    for result in open_sized.graph.output:
        for size in result.type.tensor_type.shape.dim:
            size.Clear()
    return open_sized


@lru_cache(1)
def _single_inputs() -> dict[str, list[NodeTest]]:
    """Return the tests with one input, by its dtype."""
    found: dict[str, list[NodeTest]] = {}
    for tests in node_tests().values():
        for test in tests:
            if len(test.inputs) == 1 and test.operator not in _PARAMETERS:
                found.setdefault(_first_dtype(test), []).append(test)
    return found


def _followers(test: NodeTest) -> list[NodeTest]:
    """Return the tests whose only input may be the first result of this one."""
    if not test.outputs:
        return []
    passed = test.outputs[0]
    return [
        other
        for other in _single_inputs().get(passed.dtype.name, [])
        if (other.operator in _UNARY or next(iter(other.inputs.values())).shape == passed.shape)
        and _unchanged(test, other)
    ]


def _unchanged(first: NodeTest, second: NodeTest) -> bool:
    """True if every operator means the same in the newer of the two versions."""
    newest = max(first.version, second.version)
    return _same(first.nodes, first.version, newest) and _same(second.nodes, second.version, newest)


@lru_cache(None)
def _same(operators: frozenset[str], old: int, new: int) -> bool:
    def since(operator: str, version: int) -> int:
        return int(onnx.defs.get_schema(operator, version).since_version)

    try:
        return old == new or all(since(operator, old) == since(operator, new) for operator in operators)
    except onnx.defs.SchemaError:
        return False


def _joined(first: NodeTest, second: NodeTest) -> Blueprint:
    """Join two models: names of the second get a prefix, and its input is the first result of the first."""
    front, back = first.model.graph, compose.add_prefix_graph(second.model.graph, "then_")
    passed, taken = front.output[0].name, back.input[0].name
    for node in _all_nodes(back):
        node.input[:] = [passed if name == taken else name for name in node.input]
    outputs = list(back.output)
    given = first.outputs[0]
    if second.operator in _UNARY:  # the shape it was tested with is not the one it gets
        outputs = [helper.make_tensor_value_info(o.name, o.type.tensor_type.elem_type, given.shape) for o in outputs]
    graph = helper.make_graph(
        [*front.node, *back.node],
        "pair",
        list(front.input),
        outputs,
        [*front.initializer, *back.initializer],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", max(first.version, second.version))],
        ir_version=max(first.model.ir_version, second.model.ir_version),
        producer_name="driftline",
    )
    dtypes = (_first_dtype(first), given.dtype.name)
    return _finished(first, model, (first.operator, second.operator), dtypes)
