"""Finds the module of the user's model that a node belongs to, from what exporters record."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping, Sequence

_SELF = re.compile(r"^(L\['self'\]|L__self__|self)\.?")
_BLOCK = re.compile(r"^(.*?\.?\d+)(?:\.|$)")


def onnx_scope(name: str, metadata: Mapping[str, str], weights: Sequence[str] = ()) -> str:
    """Return the module from the dynamo exporter's metadata, else from a node name like
    `/encoder/layer.0/query/MatMul`, else from a weight's name like `encoder.layer.0.query.weight`; empty if unknown."""
    with contextlib.suppress(ValueError, SyntaxError):
        scopes = ast.literal_eval(metadata.get("pkg.torch.onnx.name_scopes", ""))
        if isinstance(scopes, list) and len(scopes) > 1:
            return cleaned(str(scopes[-2]))
    if "namespace" in metadata:  # `: Net/encoder: Encoder/encoder.layer.0: Layer/linear: aten.linear.default`
        paths = [part.partition(":")[0].strip() for part in metadata["namespace"].split("/")]
        if len(paths) > 1:
            return cleaned(paths[-2])
    if name.startswith("/") and name.count("/") > 1:
        return cleaned(".".join(part for part in name.strip("/").split("/")[:-1]))
    for weight in weights:
        if "." in weight and not weight.startswith("onnx::"):
            return cleaned(weight.rpartition(".")[0])
    return ""


def cleaned(path: str) -> str:
    return _SELF.sub("", path)


def block(scope: str) -> str:
    """Return the repeated block of a scope, up to the first number: `encoder.layer.3`; empty if there is none."""
    found = _BLOCK.match(scope)
    return found[1] if found else ""
