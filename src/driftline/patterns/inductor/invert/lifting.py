"""Operators that users cannot write because only rules insert them, and the rules that do.

A program for a rule that reads such an operator contains, in its place, the pattern of a rule that makes it.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import torch

from driftline.backends.inductor_rules.registry import Registered, registered

# The handlers that pack weights, with the operators that they put in.
_PACKERS = {
    "_register_weight_pack_pass.<locals>.convolution": (
        "mkldnn._convolution_pointwise.default", "mkldnn._convolution_transpose_pointwise.default",
    ),
    "_register_weight_pack_pass.<locals>.linear": ("mkldnn._linear_pointwise.default",),
    "_register_qconv_weight_prepack_pass.<locals>.qconv_weight_prepack": ("onednn.qconv_pointwise.default",),
    "_register_qlinear_weight_prepack_pass.<locals>.qlinear_weight_prepack": (
        "onednn.qlinear_pointwise.default", "onednn.qlinear_pointwise.tensor",
    ),
}  # fmt: skip
_PRIVATE = ("mkldnn", "onednn")


def is_private(target: Any) -> bool:
    """True if the operator is inserted by rules only."""
    return isinstance(target, torch._ops.OpOverload) and target.namespace in _PRIVATE


def producers(target: Any, reader: Registered) -> list[Registered]:
    """Return the rules that insert the operator, sorted: those with the reader's dtype and with short patterns come
    first."""
    if not is_private(target):
        return []
    makers = [each for each in _makers().get(str(target), ()) if each.rule.id != reader.rule.id]
    brain = _computes_in_bfloat16(reader.rule.text)
    return sorted(makers, key=lambda each: (_computes_in_bfloat16(each.rule.text) != brain, len(each.rule.text)))


@cache
def _makers() -> dict[str, list[Registered]]:
    found: dict[str, list[Registered]] = {}
    for each in registered():
        handler = getattr(each.entry, "handler", None)
        for target in _PACKERS.get(each.rule.name, ()):
            if _agrees(target, each.rule.text):
                found.setdefault(target, []).append(each)
        if each.rule.kind == "graph" and inspect.isfunction(handler):
            made = inspect.getclosurevars(handler).nonlocals.get("computation_op")
            if made is not None and "binary" in str(made):  # a packed operator with another one fused into it
                found.setdefault(str(made), []).append(each)
    return found


def _agrees(target: str, pattern: str) -> bool:
    """True if the scales are tensors in both the pattern and the operator that replaces it, or in neither."""
    if "qlinear" not in target:
        return True
    return target.endswith(".tensor") == ("dequantize_per_tensor.tensor" in pattern)


def _computes_in_bfloat16(pattern: str) -> bool:
    return any(sign in pattern for sign in ("autocast_wgt_dtype", "to_float", "convert_dtype_after_inplace_add"))
