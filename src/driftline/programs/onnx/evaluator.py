"""The reference evaluator of the ONNX project with our corrections, used as an independent reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def make_evaluator(model: Any, kind: Any = None) -> Any:
    """Return an evaluator of a loaded model; `kind` is a subclass of `ReferenceEvaluator`."""
    from onnx.reference import ReferenceEvaluator

    from driftline.programs.onnx.corrections import corrected

    return (kind or ReferenceEvaluator)(_without_empty_outputs(model), new_ops=corrected(_opset(model)))


def _opset(model: Any) -> int:
    return max((int(o.version) for o in getattr(model, "opset_import", ()) if o.domain in ("", "ai.onnx")), default=0)


def _without_empty_outputs(model: Any) -> Any:
    """Return a copy in which unused outputs have names. The evaluator stores them under the empty name, where it would
    find them in place of an optional input that was left out."""
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
    """Yield every node, including those of subgraphs and functions."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for node in waiting:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node
