"""Find out which kind of integers an example holds, so that fresh inputs can be of the same kind."""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Array


def rule_of(example: Array) -> str:
    """Return a rule, as in `InputPlan.values`, that the example satisfies. Floats are always "any"."""
    if example.dtype.kind not in "iub":
        return "any"
    if not example.size:
        return "like"
    rows = example.reshape(-1, example.shape[-1]) if example.ndim else example.reshape(1, 1)
    if example.ndim and ((rows == 0) | (rows == 1)).all():
        return _binary(rows.astype(bool), example)
    if example.dtype.kind == "b":
        return "any"
    steps = np.diff(rows.astype(np.int64), axis=-1)
    if rows.shape[-1] > 1 and (steps == 1).all() and (rows[:, 0] == rows[0, 0]).all():
        return f"positions:{int(rows[0, 0])}"
    return f"range:{int(example.min())}:{int(example.max())}"


def _binary(rows: Array, example: Array) -> str:
    boolean = example.dtype.kind == "b"
    several = example.ndim > 1 and rows.shape[-1] > 1
    falling = (rows[:, :-1] >= rows[:, 1:]).all()
    if (
        several
        and rows.shape[-1] == example.shape[-2]
        and (np.tril(rows[: rows.shape[-1]]) == rows[: rows.shape[-1]]).all()
    ):
        return "exact"  # a causal mask
    if several and falling and rows.any(axis=-1).all():
        return "mask"
    if several and boolean and not rows.all(axis=-1).any() and (rows[:, :-1] <= rows[:, 1:]).all():
        return "padding"
    if boolean:
        return "any"
    if not rows.any():
        return "range:0:0"
    return "flags" if rows.any(axis=-1).all() and not rows.all() else f"range:{int(rows.min())}:1"
