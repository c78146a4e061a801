"""Writes an ONNX model as text that reads back to the same model, where possible."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any

from driftline.core.quoting import visible

LINE = 110  # characters
INLINE = 16  # the most elements of an initialiser that is written in the text
# The type of an attribute, where its value is enough for the parser.
_SHOWN_TYPE = re.compile(
    r"(\w+): (?:int|ints(?= = \[-?\d)|float(?= = -?\d+\.\d)|floats(?= = \[-?\d+\.\d)|string|strings(?= = \[\")) = "
)
_INLINE_TYPES = (1, 6, 7, 11)  # float, int32, int64, double: the text form reads what it wrote


class TextDetail(IntEnum):
    """How much of a model its text includes. Names of nodes, types of intermediate values and comments do not change
    the meaning but make the text long; a compiler may still read them, and fail because of them."""

    MEANING = 0
    TYPES = 1  # the types of values in between too
    EVERYTHING = 2


def model_text(model: Any, detail: TextDetail = TextDetail.MEANING) -> tuple[str, list[Any]]:
    """Return the text, and the initialisers left out of it. The text is empty if it would not read back to this
    model."""
    import onnx

    body = onnx.ModelProto()
    body.CopyFrom(model)
    apart = [tensor for tensor in body.graph.initializer if not _inline(tensor)]
    kept = [tensor for tensor in body.graph.initializer if _inline(tensor)]
    del body.graph.initializer[:]
    body.graph.initializer.extend(kept)
    if detail < TextDetail.EVERYTHING:
        _forget_remarks(body, types=detail < TextDetail.TYPES)
    text = onnx.printer.to_text(body)
    if '"""' in text or "\\" in text or visible(text) != text:  # a script could not quote it
        return "", []
    for spelled in (_shorter(_briefly(text)), _shorter(text), text):
        try:
            again = onnx.parser.parse_model(spelled)
        except Exception:  # the parser does not know all that the printer writes
            continue
        if _plain(again) == _plain(body):
            return spelled, apart
    return "", []


def _forget_remarks(model: Any, *, types: bool) -> None:
    """Remove comments and metadata of exporters that do not change the meaning; with `types`, also the types of
    intermediate values."""
    for name in ("producer_name", "producer_version", "doc_string", "metadata_props"):
        model.ClearField(name)
    for name in ("doc_string", "metadata_props", "quantization_annotation", *(["value_info"] if types else [])):
        model.graph.ClearField(name)
    for function in model.functions:
        function.ClearField("doc_string")
        function.ClearField("metadata_props")
        for node in function.node:
            node.ClearField("doc_string")
    for part in (*model.graph.node, *model.graph.input, *model.graph.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    for node in model.graph.node:
        node.ClearField("name")


def _shorter(text: str) -> str:
    """Return the text with its head on one line and the signature on another; a single node goes beside it."""
    head, _, body = text.partition(">")
    joined = f"{' '.join(head.split()).replace('< ', '<')}>{body}"
    signature, brace, nodes = joined.partition("{\n")
    first, _, rest = signature.partition("\n")
    line = f"{first}\n{' '.join(rest.split())} {{"
    if not brace or len(line) > 200:
        return joined
    every = [node.strip() for node in nodes.rstrip().removesuffix("}").splitlines() if node.strip()]
    single = f"{line} {' '.join(every)} }}"
    if len(every) == 1 and len(single.rpartition("\n")[2]) <= LINE:
        return single
    return "\n".join([line, *nodes.rstrip().replace("   ", "    ").splitlines()])


def _briefly(text: str) -> str:
    """Return the text without redundant attribute types, and with calls as in Python. This may damage a string with
    such text, but then the result does not read back and is not used."""
    text = _SHOWN_TYPE.sub(r"\1 = ", text)
    text = re.sub(r"= ([A-Za-z][\w.]*) (<.*> )?\(", lambda call: f"= {call[1]}{(call[2] or '').strip()}(", text)
    return text.replace('" : ', '": ')


def _inline(tensor: Any) -> bool:
    import numpy as np
    from onnx import numpy_helper

    if tensor.data_type not in _INLINE_TYPES:
        return False
    values = numpy_helper.to_array(tensor)
    return values.size <= INLINE and bool(np.isfinite(values).all())


def _plain(message: Any) -> Any:
    """Return a message as a comparable value that does not distinguish absent fields from default values."""
    if message.DESCRIPTOR.name == "TensorProto":
        from onnx import numpy_helper

        array = numpy_helper.to_array(message)
        return (message.name, message.data_type, array.shape, array.tobytes())
    found = {}
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            many = not hasattr(value, "DESCRIPTOR")
            found[field.name] = [_plain(item) for item in value] if many else _plain(value)
        elif field.containing_oneof or value not in ("", b"", 0, 0.0):
            found[field.name] = list(value) if hasattr(value, "extend") else value
    return found
