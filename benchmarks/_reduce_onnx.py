"""ONNX Runtime bugs inside models of about 45 nodes, for `reduce.py`.

Four bugs of ONNX Runtime 1.31 (a message when the model is loaded; wrong values), each in a chain, in a graph with
branches, with several inputs, and with large tensors and weights. Which nodes stand around it is drawn by a seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

NODES = 45
DRAWS = 30  # of which those are taken whose error reaches the output
LAYOUTS = ("chain", "branches", "inputs", "large")
_DOUBLE, _INT64, _FLOAT = TensorProto.DOUBLE, TensorProto.INT64, TensorProto.FLOAT


@dataclass(frozen=True)
class Bug:
    """A model that ONNX Runtime gets wrong, and inputs that show it."""

    name: str
    model: Any
    inputs: dict[str, Any]
    message: str = ""  # of the error when it is loaded; none: it computes wrongly


@dataclass(frozen=True)
class _Kind:
    """What goes wrong, and among which harmless operators of the same dtype it is put."""

    dtype: int
    plant: Callable[[_Maker, list[str]], None]
    unary: tuple[str, ...]
    message: str = ""


class _Maker:
    """A model in the making: nodes, constants, and the values that may be read next."""

    def __init__(self, rng: random.Random, kind: _Kind, layout: str) -> None:
        self.rng, self.kind, self.layout = rng, kind, layout
        self.dtype = helper.tensor_dtype_to_np_dtype(kind.dtype)
        self.shape = [32, 64] if layout == "large" else [3, 4]
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs = ["x", "y", "z"] if layout == "inputs" else ["x"]
        self.values = list(self.inputs)

    @property
    def near(self) -> list[str]:
        return self.values[-1:] if self.layout in ("chain", "large") else self.values[-4:]

    def constant(self, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, self.dtype), f"c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        self.values.append(name)
        return name

    def fill(self) -> None:
        """One harmless node."""
        one, other = self.rng.choice(self.near), self.rng.choice(self.near)
        if len(self.near) > 1 and self.rng.random() < 0.5:
            self.add("Add", one, other)
        elif self.layout == "large" and self.rng.random() < 0.25:
            self.add("Add", one, self.constant(np.full(self.shape, 2)))
        else:
            self.add(self.rng.choice(self.kind.unary), one)

    def finish(self) -> Any:
        """Nothing is left unread: what is still unread is added to the result."""
        read = {name for node in self.nodes for name in node.input}
        for name in [value for value in self.values[:-1] if value not in read]:
            self.add("Add", self.values[-1], name)

        def typed(name: str) -> Any:
            return helper.make_tensor_value_info(name, self.kind.dtype, self.shape)

        graph = helper.make_graph(
            self.nodes, "bug", [typed(name) for name in self.inputs], [typed(self.values[-1])], self.constants
        )
        # Polygraphy cuts between tensors whose types it knows.
        graph.value_info.extend(typed(name) for node in self.nodes[:-1] for name in node.output)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        checker.check_model(model)
        return model


def _relu_clip(maker: _Maker, near: list[str]) -> None:
    """FuseReluClip writes a float32 bound into a float64 Clip: the model does not load."""
    positive = maker.add("Relu", maker.rng.choice(near))
    maker.values.pop()  # nothing else reads it, or the two would not be merged
    maker.add("Clip", positive, maker.constant(-0.5), maker.constant(2.0))


def _shrink(maker: _Maker, near: list[str]) -> None:
    """Shrink computes float64 in float32."""
    maker.add("Shrink", maker.rng.choice(near), bias=0.1, lambd=0.2)


def _maximum(maker: _Maker, near: list[str]) -> None:
    """Max of int64 compares the low halves: max(2**31, 95) is 95."""
    wide = maker.add("Add", maker.rng.choice(near), maker.constant(2**31))
    maker.values.pop()
    maker.add("Max", wide, maker.constant(95))


def _pool(maker: _Maker, near: list[str]) -> None:
    """MaxPool starts at the lowest finite number, so that -inf alone is lost; it needs other shapes around it."""
    infinite = maker.add("Add", maker.rng.choice(near), maker.constant(-np.inf))
    maker.values.pop()
    maker.add("MaxPool", infinite, kernel_shape=[1], strides=[1])


_KINDS = {
    "Relu+Clip": _Kind(_DOUBLE, _relu_clip, ("Tanh", "Sigmoid", "Abs", "Neg"), "Unexpected data type for Clip"),
    "Shrink": _Kind(_DOUBLE, _shrink, ("Abs", "Neg", "Identity")),
    "Max int64": _Kind(_INT64, _maximum, ("Abs", "Neg", "Identity")),
    "MaxPool -inf": _Kind(_FLOAT, _pool, ("Identity", "Floor", "Ceil", "Round")),
}


def bugs(seeds: int, layouts: tuple[str, ...] = LAYOUTS) -> Iterator[Bug]:
    for layout in layouts:
        for kind in _KINDS:
            drawn = (_bug(kind, layout, seed) for seed in range(DRAWS))
            yield from itertools.islice(filter(_shows, drawn), seeds)


def _shows(bug: Bug) -> bool:
    """Does the error reach the output of the whole model? In some draws it is rounded away or cancels out."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(bug.model.SerializeToString(), providers=["CPUExecutionProvider"])
        (got,) = session.run(None, bug.inputs)
    except Exception as error:
        return bool(bug.message) and bug.message in str(error)
    with np.errstate(all="ignore"):
        (right,) = ReferenceEvaluator(bug.model).run(None, bug.inputs)
    return not bug.message and not np.allclose(got, right, rtol=1e-9, atol=0, equal_nan=True)


def _bug(name: str, layout: str, seed: int) -> Bug:
    kind = _KINDS[name]
    maker = _Maker(random.Random(f"{name} {layout} {seed}"), kind, layout)
    if kind.plant is _pool:
        maker.shape = [1, *maker.shape]
    place = maker.rng.randrange(5, NODES - 10)
    while len(maker.nodes) < NODES:
        if len(maker.nodes) == place:
            kind.plant(maker, maker.near)
        else:
            maker.fill()
    model = maker.finish()
    values = np.random.default_rng(seed)
    inputs = {name: (3 * values.standard_normal(maker.shape)).astype(maker.dtype) for name in maker.inputs}
    return Bug(f"onnx {layout}, {name} seed={seed}", model, inputs, kind.message)
