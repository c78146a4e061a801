"""Helpers to write an idiom: inputs, constants and nodes of a small ONNX model, one call each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftline.core.tensors import Array, TensorSpec, numpy_dtype
from driftline.generate.emit_onnx import OnnxWriter, element_type
from driftline.inputs.plan import InputPlan

MACHINE_LEARNING = "ai.onnx.ml"


@dataclass
class Sketch:
    """A model under construction. `rng` chooses between equivalent ways of writing the same thing."""

    rng: random.Random
    opset: int = 18
    open_sizes: bool = False  # the sizes of the inputs are not known before it runs
    preceded: bool = False  # float inputs go through a node first: some rules ignore graph inputs
    writer: OnnxWriter = field(default_factory=OnnxWriter)
    plans: list[InputPlan] = field(default_factory=list)

    def input(self, *shape: int, dtype: str = "float32", values: str = "any") -> str:
        name = f"x{len(self.plans)}"
        self.plans.append(InputPlan(TensorSpec(name, dtype, shape), values))
        return str(self.node("Neg", name)) if self.preceded and dtype.startswith("float") else name

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        return self.writer.node(kind, *inputs, outputs=outputs, **attributes)

    def weights(self, *shape: int, dtype: str = "float32", low: float = -1.0, high: float = 1.0) -> str:
        """Add a constant of random numbers that are exact in every float type."""
        count = int(np.prod(shape))
        drawn = [self.rng.uniform(low, high) for _ in range(count)]
        return self.const(np.round(np.array(drawn).reshape(shape) * 64) / 64, dtype)

    def integers(self, *shape: int, dtype: str, low: int, high: int) -> str:
        drawn = [self.rng.randint(low, high) for _ in range(int(np.prod(shape)))]
        return self.const(np.array(drawn).reshape(shape), dtype)

    def const(self, values: Any, dtype: str = "float32") -> str:
        if dtype.endswith("int4"):  # two of them share a byte
            return self._packed(np.asarray(values), dtype)
        array: Array = np.asarray(values).astype(numpy_dtype(dtype))
        return self.writer.array(array)

    def _packed(self, values: Array, dtype: str) -> str:
        import ml_dtypes
        from onnx import numpy_helper

        name = self.writer.fresh()
        self.writer.initializers.append(numpy_helper.from_array(values.astype(getattr(ml_dtypes, dtype)), name))
        return name

    def ints(self, *values: int) -> str:
        return self.writer.ints(values)

    def either(self, *names: str) -> list[str]:
        """Return the operands in random order, since most rules match both orders."""
        return list(names) if self.rng.random() < 0.5 else list(reversed(names))

    def model(self, outputs: Sequence[str]) -> Any:
        """Return the finished model. The types of its outputs are left to inference."""
        import onnx
        from onnx import helper

        results = [f"output{position}" for position in range(len(outputs))]
        renamed = dict(zip(outputs, results, strict=True))
        for node in self.writer.nodes:  # no Identity at the end: it would hide the last node from its rule
            node.output[:] = [renamed.get(name, name) for name in node.output]
            node.input[:] = [renamed.get(name, name) for name in node.input]
        inputs = [self._declared(plan.spec) for plan in self.plans]
        open_outputs = [onnx.ValueInfoProto(name=name) for name in results]
        graph = helper.make_graph(self.writer.nodes, "idiom", inputs, open_outputs, self.writer.initializers)
        domains = {node.domain for node in graph.node} - {""}
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(domain, 4 if domain == MACHINE_LEARNING else 1) for domain in sorted(domains)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="driftline")

    def _declared(self, spec: TensorSpec) -> Any:
        from onnx import helper

        sizes = [f"{spec.name}_{axis}" for axis in range(len(spec.shape))] if self.open_sizes else list(spec.shape)
        return helper.make_tensor_value_info(spec.name, element_type(spec.dtype), sizes)


Idiom = Callable[[Sketch], "str | Sequence[str]"]
IDIOMS: dict[str, Idiom] = {}


def idiom(function: Idiom) -> Idiom:
    """Register a function under its own name. It draws a model on the sketch and returns the names of the outputs."""
    IDIOMS[function.__name__] = function
    return function
