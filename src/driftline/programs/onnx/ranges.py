"""Derives from an ONNX graph which values its inputs may hold, and how large its open dimensions may be.

The answer holds for each input a rule as in `inputs/plan.py` with its reason, the names of its dimensions, and the
largest size of each. Names of inputs are used only where the graph gives no information.
"""

from __future__ import annotations

from typing import Any

from driftline.programs.known import InputRule, Known
from driftline.programs.onnx.flow import Facts, Flow, Walk
from driftline.programs.onnx.shapes import known_shapes, small_constants
from driftline.programs.onnx.walk import walk_graph

_MASK_KINDS = ("penalty", "complement", "keeps", "hides", "flag")


def analyse(model: Any) -> Known:
    """Return the rules and dimension names of each input, and the limits of each dimension."""
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    facts = follow(model, [value.name for value in inputs], weights)
    rules = {value.name: rule for value in inputs if (rule := _rule(value, facts))}
    dims = {value.name: tuple(str(dim.dim_param) for dim in value.type.tensor_type.shape.dim) for value in inputs}
    return Known(dims=dims, limits=dict(facts.limits)).ruled(rules)


def follow(model: Any, inputs: list[str], weights: set[str]) -> Facts:
    facts = Facts()
    walk = Walk(known_shapes(model), small_constants(model), facts, set(weights))
    for name in inputs:
        walk.put(name, [Flow(name)])
    walk_graph(walk, model.graph.node, {(f.domain, f.name): f for f in model.functions})
    return facts


def _rule(value: Any, facts: Facts) -> InputRule | None:
    import onnx

    name, kind = value.name, value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    found, low = facts.kinds.get(name, {}), name.lower()
    if dtype.kind == "b":
        return _flags(found, low)
    if dtype.kind not in "iu":
        return _said("mask", found["penalty"]) if "penalty" in found else None
    if "equal" in found:
        return _said(f"equal:{found['equal']}", "GroupQueryAttention counts its keys with it")
    if "shape" in found:
        return _said("sizes", found["shape"])
    if "penalty" in found or "complement" in found:
        return _said("mask", found.get("penalty") or found["complement"])
    bounds = facts.bounds.get(name, [])
    if "position" in found or (bounds and "position" in low):
        return _said("positions", found.get("position") or bounds[0].why)
    if bounds:
        return _index(bounds)
    if "choice" in found:
        return _said(f"index:{found['choice']}", f"it is compared with the places along {found['choice']}")
    if rule := _mask(found, low):
        return rule
    if found.get("length") and len(kind.shape.dim) < 2:
        return _said(f"lengths:{found['length']}", f"it is a length along {found['length']}")
    if "count" in found:
        return _said("range:1:2", found["count"])
    if "divisor" in found:
        return _said("range:1:7", found["divisor"])
    return _by_name(low)


def _index(bounds: list[Any]) -> InputRule:
    """Return the rule for an index with these bounds. Bounds by dimension name win over numbers, as they are small."""
    low = max(0, *(bound.low for bound in bounds))
    numbers = [(bound.high + bound.size, bound.why) for bound in bounds if isinstance(bound.size, int)]
    names = [bound for bound in bounds if isinstance(bound.size, str)]
    if names:
        return _said(f"index:{names[0].size}", names[0].why)
    end, why = min(numbers)
    return _said(f"range:{low}:{max(low, end - 1)}" if low else f"index:{max(1, end)}", why)


def _mask(found: dict[str, str], name: str) -> InputRule | None:
    for kind in _MASK_KINDS:
        if kind in found:
            hides = kind != "flag" and "hides" in found and "keeps" not in found
            return _said("padding" if hides else "mask", found[kind])
    if "mask" in name and ("factor" in found or "counted" in found or "condition" in found):
        return _said("mask", found.get("factor") or found.get("counted") or found["condition"])
    return None


def _flags(found: dict[str, str], name: str) -> InputRule | None:
    if "keeps" in found:
        return _said("mask", found["keeps"])
    if "hides" in found:
        return _said("padding", found["hides"])
    return _said("mask", "its name says so") if "mask" in name else None


def _by_name(name: str) -> InputRule | None:
    if "position" in name:
        return _said("positions", "its name says so")
    if "mask" in name:
        return _said("mask", "its name says so")
    if "token_type" in name or "segment" in name:
        return _said("index:2", "its name says so")
    return None


def _said(values: str, why: str) -> InputRule:
    return InputRule(values, why)
