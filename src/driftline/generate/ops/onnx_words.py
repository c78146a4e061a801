"""Small compositions of ONNX nodes that forms in several files use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def onnx_reshape(w: Any, value: str, shape: Sequence[int]) -> Any:
    """Add a Reshape to an explicit shape, which may contain zeros."""
    # Without allowzero a zero means "as in the input"
    return w.node("Reshape", value, w.ints(shape), allowzero=int(0 in shape))


def onnx_flip(w: Any, value: str, axes: Sequence[int]) -> Any:
    """Add a Slice that runs backwards and ends before the first element, whatever the size."""
    return w.node(
        "Slice", value, w.ints([-1] * len(axes)), w.ints([-(2**31)] * len(axes)), w.ints(axes), w.ints([-1] * len(axes))
    )
