"""The reference evaluator of the ONNX project, with what is wrong in it set right: it is a witness here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def make_evaluator(model: Any, kind: Any = None) -> Any:
    """An evaluator of a loaded model; `kind` is a class derived from `ReferenceEvaluator`."""
    from onnx.reference import ReferenceEvaluator

    from driftline.programs.onnx.corrections import corrected

    return (kind or ReferenceEvaluator)(_without_empty_outputs(model), new_ops=corrected(_opset(model)))


def _opset(model: Any) -> int:
    return max((int(o.version) for o in getattr(model, "opset_import", ()) if o.domain in ("", "ai.onnx")), default=0)


def _without_empty_outputs(model: Any) -> Any:
    """A copy in which unused outputs have names. The evaluator keeps them under the empty name, where it
    then finds them when an optional input is left out."""
    import onnx

    if not isinstance(model, onnx.ModelProto) or not any(_unnamed(node) for node in _nodes(model)):
        return model
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    for number, node in enumerate(_nodes(copied)):
        node.output[:] = [name or f"unused.{number}.{at}" for at, name in enumerate(node.output)]
    return copied


def _unnamed(node: Any) -> bool:
    return "" in node.output


def _nodes(model: Any) -> Iterator[Any]:
    """Every node, those of subgraphs and functions included."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for node in waiting:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node
