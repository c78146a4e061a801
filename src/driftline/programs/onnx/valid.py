"""Checks that an ONNX model is valid at the opset that it names. What a compiler does with an invalid model is no bug.

`onnx.checker` checks operators and attributes, shape inference the types of operands, and `words.py` the attributes
that take one of a few words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.core.files import BIG
from driftline.core.task import Context, Task
from driftline.core.text import first_line
from driftline.programs.onnx.file import load_structure, model_size
from driftline.programs.onnx.words import unknown_word

STANDARD = ("", "ai.onnx")
_DOMAINS = (*STANDARD, "ai.onnx.ml")
# The checker's messages about a single node. Others may be false: it does not know the names around an inner graph.
_OF_NODE = re.compile("No Op registered|Unrecognized attribute|Required attribute|Mismatched attribute type")
_TYPES = re.compile(r"\(op_type:(\w+)[^)]*\): (\S+ typestr: .*|\S+ has inconsistent type .*)")


@dataclass(frozen=True)
class ValidityRequest:
    """A request to validate the model at `path`."""

    path: Path


@dataclass(frozen=True)
class Validity:
    """The answer: `fault` is a sentence without a full stop, or empty for a valid model."""

    fault: str = ""


FIND_FAULT = Task("driftline.programs.onnx.valid:find_fault", ValidityRequest, Validity)


@FIND_FAULT.serve
def find_fault(request: ValidityRequest, context: Context) -> Validity:
    return Validity(fault_at_opset(load_structure(request.path)))


def fault_at_opset(model: Any) -> str:
    """Return why a model is not valid at its opset ("the model is not valid at its opset 17: ..."), or an empty text.
    Operators of other domains are not checked."""
    return fault_of_words(model) or _as_sentence(model, _fault_of_operators(model) or _fault_of_types(model))


def fault_of_words(model: Any) -> str:
    """Return why an attribute has a word that the model's opset does not know, or an empty text."""
    opset = opset_of(model)
    nodes = (node for node in _standard_nodes(model.graph) if node.domain in STANDARD)
    return _as_sentence(model, next((told for node in nodes if (told := unknown_word(node, opset))), ""))


def _as_sentence(model: Any, told: str) -> str:
    return told and f"the model is not valid at its opset {opset_of(model)}: {told}"


def opset_of(model: Any) -> int:
    """Return the version of the standard that a model names; 1 if it names none."""
    return next((int(opset.version) for opset in model.opset_import if opset.domain in STANDARD), 1)


def _fault_of_operators(model: Any) -> str:
    """Return a fault for an operator or attribute that the opset does not have, or an empty text."""
    import onnx

    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {opset.domain: opset.version for opset in model.opset_import}
    for node in _standard_nodes(model.graph):
        if not onnx.defs.has(node.op_type, node.domain):
            continue  # of a runtime that put its operators into the standard's domain
        try:
            onnx.checker.check_node(node, context)
        except onnx.checker.ValidationError as error:
            if _OF_NODE.match(str(error)):
                return first_line(str(error))
    return ""


def _fault_of_types(model: Any) -> str:
    """Return a fault for a tensor type that an operator does not accept, or an empty text. Big models are not
    checked."""
    import onnx

    if model_size(model) >= BIG:
        return ""
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True)
    except Exception as error:  # a failure of the inference itself is no fault of the model
        found = _TYPES.search(str(error))
        return f"{found[1]}: {found[2].strip()}" if found else ""
    return ""


def _standard_nodes(graph: Any) -> Iterator[Any]:
    """Yield the nodes of the standard's domains, including those of graphs inside nodes."""
    for node in graph.node:
        if node.domain in _DOMAINS:
            yield node
        for attribute in node.attribute:
            for inner in (attribute.g,) if attribute.HasField("g") else tuple(attribute.graphs):
                yield from _standard_nodes(inner)
