"""Reads and validates ONNX models, and describes their inputs and outputs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.tensors import ANY_SIZE, TensorSpec
from driftline.core.text import first_line
from driftline.programs.described import Described
from driftline.programs.onnx.cut import CONTRIB_IN_STANDARD_DOMAIN
from driftline.programs.onnx.file import KeptModel, keep_model, load_structure
from driftline.programs.onnx.ranges import analyse
from driftline.programs.onnx.room import largest_value
from driftline.programs.onnx.sound import require_input, require_sound
from driftline.programs.onnx.valid import fault_of_words

_UNDEFINED = re.compile(r"input '([^']*)' of node:\s+name: (.*?) OpType: (\S+)\s+is not output of any", re.DOTALL)


def read_model(path: Path, folder: Path, name: str = "") -> tuple[Any, KeptModel | None]:
    """Return the checked model, and its private copy in `folder` if it needs one: see `keep_model`."""
    name = name or path.name
    model = load_structure(path, name)
    require_sound(model, name)
    if not model.graph.node and not model.graph.output:
        raise DriftlineError(f"{name} is not an ONNX model: it has no graph. Give a file written by an ONNX exporter.")
    kept = keep_model(model, path, folder, name)
    _check(model, str(kept.path) if kept and kept.data else model, name)
    return model, kept


def _check(model: Any, checked: Any, name: str) -> None:
    """Raise if the model is invalid. `checked` is the model, or its path if it is too big for one message."""
    import onnx

    newest = onnx.defs.onnx_opset_version()
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > newest:
            raise DriftlineError(
                f"{name} uses opset {opset.version} of the standard, which this onnx (up to {newest}) does not know."
                " Export it with an older opset, or install a newer onnx."
            )
    standard = {opset.domain for opset in model.opset_import} <= {"", "ai.onnx", "ai.onnx.ml"}
    for node in model.graph.node:
        if node.op_type in CONTRIB_IN_STANDARD_DOMAIN:
            standard = False
        elif node.domain in ("", "ai.onnx") and not onnx.defs.has(node.op_type):
            raise DriftlineError(
                f"{name} uses the operator {node.op_type!r}, which ONNX does not define."
                " Correct its name or give it the domain of the runtime that defines it."
            )
    if told := fault_of_words(model):
        raise DriftlineError(f"{name}: {told}. Export it for an opset that has this.")
    if not standard:  # operators of other domains are the business of the runtime that knows them
        return
    try:
        onnx.checker.check_model(checked)
    except Exception as error:
        raise DriftlineError(f"{name} is not a valid ONNX model: {_what_is_wrong(str(error))}") from error


def _what_is_wrong(said: str) -> str:
    """Return the checker's message in one sentence. It spreads messages about undefined values over several lines."""
    undefined = _UNDEFINED.search(said)
    if not undefined:
        return first_line(said)
    value, node, operator = undefined.groups()
    reader = f"the {operator} node {node!r}" if node else f"a node of type {operator}"
    return (
        f"{reader} reads {value!r}, which is no input, no weight and no result of a node before it."
        " Correct the name or the order of the nodes, or export it again."
    )


def describe_model(model: Any) -> Described:
    """Describe a model: its inputs (without initialisers), outputs and operators."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return Described(
        framework="onnx",
        inputs=tuple(input_spec(value) for value in model.graph.input if value.name not in constants),
        outputs=tuple(value.name for value in model.graph.output),
        operators=tuple(node.op_type for node in model.graph.node),
        known=analyse(model),
        largest=largest_value(model),
    )


def input_spec(value: Any) -> TensorSpec:
    if not value.type.HasField("tensor_type"):
        raise DriftlineError(
            f"Input {value.name!r} is not a tensor (a sequence, map or optional); Driftline feeds tensors only."
        )
    tensor = value.type.tensor_type
    dtype = require_input(value)
    sizes = tuple(d.dim_value if d.HasField("dim_value") else ANY_SIZE for d in tensor.shape.dim)
    return TensorSpec(value.name, dtype, sizes)
