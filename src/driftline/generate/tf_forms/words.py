"""What several TensorFlow forms share: axes moved to where its operators want them."""

from __future__ import annotations

from collections.abc import Sequence

from driftline.generate.operator import Use


def channels_last(text: str, rank: int) -> str:
    """From (batch, channels, *image) to (batch, *image, channels)."""
    return f"tf.transpose({text}, {[0, *range(2, rank), 1]})"


def channels_first(text: str, rank: int) -> str:
    """And back."""
    return f"tf.transpose({text}, {[0, rank - 1, *range(1, rank - 1)]})"


def with_axis_last(use: Use, inside: str) -> str:
    """`inside` works on `{x}` along the last axis; the axis of the operator is moved there and back."""
    rank, axis = use.types[0].rank, use["axis"] % use.types[0].rank
    if axis == rank - 1:
        return inside.format(x=use.inputs[0])
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return f"tf.transpose({inside.format(x=f'tf.transpose({use.inputs[0]}, {swap})')}, {swap})"


def axes_text(axes: Sequence[int]) -> str:
    """No axes are all axes."""
    return repr(list(axes)) if axes else "None"
