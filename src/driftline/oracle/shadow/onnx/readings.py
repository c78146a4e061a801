"""The values that an open element of an ONNX node may have, where the specification has only a few readings.

A clause that leaves two results open does not allow a third: the maximum of numbers and a NaN is either NaN or the
maximum of the numbers. Nodes that are not listed here may return anything where a clause applies to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import IEEE

MOST = 8  # most readings of one node
_LOSERS = {
    **dict.fromkeys(("Max", "ReduceMax", "MaxPool", "GlobalMaxPool"), -np.inf),
    **dict.fromkeys(("Min", "ReduceMin"), np.inf),
}


def readings_of(node: Any, inputs: list[Any], result: Array, dtype: str) -> list[Array]:
    """Return the result under each reading, or an empty list where open elements may have any value. `dtype` is the
    float type in which the program stores the result."""
    rule = _RULES.get(node.op_type)
    if rule is None:
        return []
    if node.op_type.startswith("Scatter"):
        return rule(node, inputs, result, 0.0)
    if result.dtype.kind != "f":
        return []
    largest = IEEE.largest(dtype or "float64")
    return [result, *rule(node, inputs, result, largest)]


def _comparison(node: Any, inputs: list[Any], result: Array, largest: float) -> list[Array]:
    """Return the results where NaN wins, and where NaNs are ignored. If all values are NaN, the latter is an infinity
    or the end of the range."""
    loser = _LOSERS[node.op_type]
    compared = [np.where(np.isnan(v), loser, v) if _is_float(v) else v for v in inputs]
    found = np.asarray(node.run(*compared)[0])
    return [np.full(result.shape, np.nan), found, np.where(found == loser, np.copysign(largest, loser), found)]


def _clip(node: Any, inputs: list[Any], result: Array, largest: float) -> list[Array]:
    """Return the readings of Clip: a NaN becomes NaN or either bound; an infinity without a bound on its side stays or
    becomes the end of the range."""
    x = np.asarray(inputs[0])
    attributes = (getattr(node, "min", None), getattr(node, "max", None))
    given = [inputs[at] if len(inputs) > at and inputs[at] is not None else attributes[at - 1] for at in (1, 2)]
    low, high = (
        end if bound is None or np.isnan(bound) else float(bound)
        for bound, end in zip(given, (-largest, largest), strict=True)
    )
    bounded = np.clip(x, low, high)
    within = np.clip(x, -np.inf if given[0] is None else low, np.inf if given[1] is None else high)
    spoilt = np.isnan(x) | any(bound is not None and bool(np.isnan(bound)) for bound in given)
    ends = [np.where(np.isnan(x), end, values) for values in (bounded, within) for end in (low, high)]
    return [np.where(spoilt, np.nan, result), *ends]


def _zero(node: Any, inputs: list[Any], result: Array, largest: float) -> list[Array]:
    return [np.where(np.isnan(result), 0.0, result), np.where(result == 0, np.nan, result)]


def _sign(node: Any, inputs: list[Any], result: Array, largest: float) -> list[Array]:
    return [np.where(np.isnan(inputs[0]), sign, result) for sign in (-1.0, 0.0, 1.0, np.nan)]


def _scatter(node: Any, inputs: list[Any], result: Array, largest: float) -> list[Array]:
    """Return the result for each order of updates to the same element: any of them may be the last."""
    if getattr(node, "reduction", None) not in (None, "none", b"none"):
        return []
    data, indices, updates = (np.asarray(value) for value in inputs[:3])
    if node.op_type == "ScatterND":
        last = indices.shape[-1]
        whole = np.arange(data.size).reshape(data.shape)
        wrapped = tuple(np.mod(indices[..., axis], data.shape[axis]) for axis in range(last))
        places = whole[wrapped]
    else:
        axis = int(getattr(node, "axis", 0) or 0)
        at: list[Array] = list(np.indices(indices.shape))
        at[axis] = np.mod(indices, data.shape[axis])
        places = np.ravel_multi_index(tuple(at), data.shape)
    return written_in_turns(data, places, updates)


def written_in_turns(data: Array, places: Array, updates: Array) -> list[Array]:
    """Return copies of `data` with `updates` written to flat indices, each time with another one of the updates that
    share an index. Returns an empty list if more than `MOST` updates share one."""
    flat, values = places.reshape(-1), np.broadcast_to(updates, places.shape).reshape(-1)
    most = int(np.bincount(flat).max(initial=0)) if flat.size else 0
    if not 1 < most <= MOST:
        return []
    order = np.argsort(flat, kind="stable")
    grouped = flat[order]
    starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
    counts = np.diff(np.r_[starts, grouped.size])
    found = []
    for turn in range(most):
        written = data.reshape(-1).copy()
        written[grouped[starts]] = values[order[starts + turn % counts]]
        found.append(written.reshape(data.shape))
    return found


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


_RULES: dict[str, Callable[[Any, list[Any], Array, float], list[Array]]] = {
    **dict.fromkeys(_LOSERS, _comparison),
    **dict.fromkeys(("ScatterElements", "ScatterND", "Scatter"), _scatter),
    "Clip": _clip,
    "Relu": _zero,
    "PRelu": _zero,
    "Sign": _sign,
}
