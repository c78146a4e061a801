"""Reduction keeps programs meaningful: what made sense does not become a division by zero, an epsilon of 0 or NaN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import Fault
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf, ProgramNode, ValueType
from driftline.diagnose.reduce.meaning import EMPTY, NOT_FINITE, flaws, not_zero
from driftline.diagnose.reduce.reducer import Reduction, reduce_case
from driftline.diagnose.reduce.signature import Signature

PLUGINS = (str(Path(__file__).with_name("reduce_backends.py")),)
FINITE = Signature("RUN", "wrong-value", fault=Fault.NUMBER)
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)
RNG = np.random.default_rng(3)


@pytest.fixture(scope="module", autouse=True)
def backends() -> None:
    load_plugins(PLUGINS)


def reduced(
    checker: Checker,
    folder: Path,
    target: str,
    nodes: Sequence[Any],
    constants: dict[str, Any],
    x: Any = X,
    signature: Signature = FINITE,
) -> tuple[Reduction, Any]:
    """What becomes of a model with one input `x` and one output `y`."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model), str(folder / "model.onnx"))
    program = open_program(str(folder / "model.onnx"), checker.pool, CheckOptions()).program
    case = Case(program, (Inputs({"x": x}, "given"),), (Target.parse(target),), CheckOptions(plugins=PLUGINS))
    found = reduce_case(checker, case, signature, budget=900)
    assert found.smallest, "it fails still"
    seen = Signature.of_verdict(found.smallest.result.execution, found.smallest.result.verdict)
    assert signature.covers(seen), "and by evidence of the same class"
    return found, onnx.load_model_from_string(found.case.program.path.read_bytes())


def values(found: Reduction, model: Any) -> dict[str, Any]:
    """All inputs and constants by name."""
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    return constants | dict(found.case.samples[0].arrays)


def qdq(x: str, scale: str, zero: str, made: str) -> list[Any]:
    return [
        helper.make_node("QuantizeLinear", [x, scale, zero], [f"{made}_q"]),
        helper.make_node("DequantizeLinear", [f"{made}_q", scale, zero], [made]),
    ]


def test_a_quantised_product_keeps_scales_above_zero(checker: Checker, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["t"]),
        *qdq("t", "s", "z", "a"),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["w"]),
        helper.make_node("Gemm", ["a", "w", "b"], ["g"], transB=1),
        *qdq("g", "os", "z", "y"),
    ]
    constants = {
        "s": np.float32(0.0234), "z": np.uint8(128), "wq": RNG.integers(-127, 127, (3, 6)).astype(np.int8),
        "ws": np.float32(0.0077), "wz": np.int8(0), "b": RNG.normal(size=3).astype(np.float32), "os": np.float32(0.05),
    }  # fmt: skip
    found, model = reduced(checker, tmp_path, "odd-needs:kinds=QuantizeLinear+DequantizeLinear+Gemm", nodes, constants)
    assert found.after.operators == 3
    held = values(found, model)
    scales = [held[n.input[1]] for n in model.graph.node if n.op_type != "Gemm" and n.input[1] in held]
    assert scales and all((scale > 0).all() for scale in scales)


def test_an_epsilon_stays_above_zero(checker: Checker, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("LayerNormalization", ["n", "g", "b"], ["y"], axis=-1, epsilon=1.2e-5),
    ]
    constants = {"g": np.ones(6, np.float32), "b": np.zeros(6, np.float32)}
    _, model = reduced(checker, tmp_path, "odd-small-epsilon", nodes, constants)
    (norm,) = model.graph.node
    assert next(a.f for a in norm.attribute if a.name == "epsilon") > 0


def test_a_variance_is_not_negative(checker: Checker, tmp_path: Path) -> None:
    nodes = [helper.make_node("BatchNormalization", ["x", "g", "b", "m", "v"], ["y"])]
    constants = {name: RNG.normal(-2, 0.5, 6).astype(np.float32) for name in "gbm"} | {"v": np.full(6, 3, np.float32)}
    found, model = reduced(checker, tmp_path, "odd-needs:kinds=BatchNormalization", nodes, constants)
    assert (values(found, model)[model.graph.node[0].input[4]] >= 0).all()


def test_indices_stay_in_range(checker: Checker, tmp_path: Path) -> None:
    nodes = [helper.make_node("Gather", ["t", "x"], ["g"], axis=1), helper.make_node("Exp", ["g"], ["y"])]
    table = RNG.normal(size=(2, 9)).astype(np.float32)
    indices = np.array([[8, -9, 7]], np.int64)
    found, model = reduced(checker, tmp_path, "odd-needs:kinds=Gather", nodes, {"t": table}, indices)
    (gather,) = model.graph.node
    held = values(found, model)
    data, chosen = (held[name] for name in gather.input)
    size = data.shape[next((a.i for a in gather.attribute), 0)]
    assert ((chosen >= -size) & (chosen < size)).all()


def test_a_divisor_does_not_become_zero(checker: Checker, tmp_path: Path) -> None:
    """The division by zero would not be seen in the result: the Tanh of an infinity is 1."""
    nodes = [helper.make_node("Div", ["x", "c"], ["d"]), helper.make_node("Tanh", ["d"], ["y"])]
    found, model = reduced(checker, tmp_path, "odd-quotient", nodes, {"c": np.full((4, 6), 7, np.float32)})
    assert found.after.operators == 2
    divisor = next(node for node in model.graph.node if node.op_type == "Div").input[1]
    assert (values(found, model)[divisor] != 0).all()


def test_a_nan_that_is_made_is_not_taken_for_one_that_is_lost(checker: Checker, tmp_path: Path) -> None:
    x = np.array([725, np.nan, 0.5], np.float32)  # NaN is the oddest, and so the first that is tried alone
    made = Signature("RUN", "wrong-nan-inf", fault=Fault.NAN_MADE)
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    found, _ = reduced(checker, tmp_path, "odd-nan-both-ways", nodes, {}, x, made)
    assert found.after.elements == 1
    assert found.case.samples[0].arrays["x"].item() > 100


# -- the table by itself -----------------------------------------------------------------------------------------------


def torch_node(op: str, *args: Any, **kwargs: Any) -> ProgramGraph:
    """A torch call; "x" and "y" among the arguments are its inputs."""
    names = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, str)]
    at = {name: index for index, name in enumerate(names)}
    attributes: dict[str, Any] = {"args": [{"$": at[arg]} if isinstance(arg, str) else arg for arg in args]}
    if kwargs:
        attributes["kwargs"] = {key: {"$": at[v]} if isinstance(v, str) else v for key, v in kwargs.items()}
    leaves = tuple(ProgramLeaf(index, ValueType("float32", (2,)), "") for index in range(len(names)))
    node = ProgramNode(op, tuple(range(len(names))), (len(names),), attributes)
    return ProgramGraph(leaves, (node,), node.outputs)


ONE = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("graph", "held", "wanted"),
    [
        (torch_node("operator.truediv", "x", 0), [ONE], "the divisor of truediv is 0"),
        (torch_node("torch.div", "x", other="y"), [ONE, 0 * ONE], "the divisor of div is 0"),
        (torch_node("torch.nn.functional.layer_norm", "x", [2], eps=0.0), [ONE], "epsilon of layer_norm"),
        (torch_node("torch.nn.functional.batch_norm", "x", "m", "v"), [ONE, ONE, -ONE], "the variance of batch_norm"),
        (torch_node("torch.ops.aten.rsqrt.default", "x"), [0 * ONE], "the argument of rsqrt"),
        (torch_node("torch.fake_quantize_per_tensor_affine", "x", 0.0, 0, 0, 255), [ONE], "the scale of fake_quantize"),
        (torch_node("torch.nn.functional.dropout", "x", 1.5), [ONE], "the probability of dropout"),
        (torch_node("torch.neg", "x"), [np.array([np.nan, 1], np.float32)], NOT_FINITE),
        (torch_node("torch.neg", "x"), [np.zeros((0, 2), np.float32)], EMPTY),
    ],
)
def test_flaws_of_torch_calls(graph: ProgramGraph, held: list[Any], wanted: str) -> None:
    assert any(wanted in flaw for flaw in flaws(graph, dict(enumerate(held))))
    assert not flaws(torch_node("torch.neg", "x"), {0: ONE})


def test_where_zero_makes_no_sense() -> None:
    assert not_zero(torch_node("torch.div", "x", "y")) == {1}
    assert not_zero(torch_node("torch.mul", "x", "y")) == set()
