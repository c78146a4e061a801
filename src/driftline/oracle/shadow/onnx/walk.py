"""Run an ONNX graph node by node with the evaluator of the ONNX project, and find the types of its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from driftline.core.tensors import Arrays, is_float
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.onnx.parts import inferred_types
from driftline.programs.onnx.evaluator import make_evaluator

NodeStep = Callable[[Any, list[Any], dict[str, Any]], tuple[Any, ...]]


def walked_by(step: NodeStep) -> Any:
    """Return a class of evaluators that pass every node to `step`. Graphs inside nodes use the same class."""
    from onnx.reference import ReferenceEvaluator

    class Walked(ReferenceEvaluator):
        def run(
            self, output_names: Any, feed_inputs: Any, attributes: Any = None, intermediate: bool = False, **_: Any
        ) -> Any:
            results: dict[str, Any] = {"": None, **self.rt_inits_, **feed_inputs}
            for node in self.rt_nodes_:
                context: dict[str, Any] = {"context": results} if node.need_context() else {}
                if node.has_linked_attribute and attributes:
                    context["linked_attributes"] = attributes
                made = step(node, [results[name] for name in node.input], context)
                results.update(zip(node.output, made, strict=False))
            return results if intermediate else [results[name] for name in output_names or self.output_names]

    return Walked


def stored_types(model: Any, arrays: Arrays) -> dict[str, str]:
    """Map the names of values to the float types in which the program stores them: from shape inference, and from one
    run of the model for values that shape inference misses."""
    types = inferred_types(model)
    missing: dict[str, str] = {}

    def note(node: Any, inputs: list[Any], context: dict[str, Any]) -> tuple[Any, ...]:
        results = evaluated(node, inputs, context)
        for name, result in zip(node.output, results, strict=False):
            if isinstance(result, np.ndarray):
                dtype = result.dtype.name
                missing[name] = dtype if is_float(dtype) or result.dtype.kind == "c" else ""
        return results

    if all(name in types for node in model.graph.node for name in node.output if name):
        return types
    evaluator = make_evaluator(model, walked_by(note))
    with np.errstate(all="ignore"):
        evaluator.run(None, {name: arrays[name] for name in evaluator.input_names if name in arrays})
    return missing | types


def evaluated(node: Any, inputs: list[Any], context: dict[str, Any]) -> tuple[Any, ...]:
    """Evaluate a node in float64 and return the results that it names."""
    results = in_doubles(node, lambda: node.run(*inputs, **context))
    return results[: len(node.output)]  # some implementations return optional results that the node does not name


def in_doubles(node: Any, run: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Call `run` to evaluate a node. Raises `NoExactReference` if the node is not valid or does not accept doubles."""
    try:
        return run()
    except NoExactReference:
        raise
    except Exception as error:
        raise NoExactReference(f"{node.op_type} does not run in float64 ({type(error).__name__}: {error})") from error
