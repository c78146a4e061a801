"""Axis transpositions that several TensorFlow forms share."""

from __future__ import annotations

from collections.abc import Sequence

from driftline.generate.operator import Use


def channels_last(text: str, rank: int) -> str:
    """Transpose (batch, channels, *image) to (batch, *image, channels)."""
    return f"tf.transpose({text}, {[0, *range(2, rank), 1]})"


def channels_first(text: str, rank: int) -> str:
    """Transpose (batch, *image, channels) to (batch, channels, *image)."""
    return f"tf.transpose({text}, {[0, rank - 1, *range(1, rank - 1)]})"


def with_axis_last(use: Use, inside: str) -> str:
    """Swap the operator's axis with the last, apply the template `inside` to `{x}`, and swap back."""
    rank, axis = use.types[0].rank, use["axis"] % use.types[0].rank
    if axis == rank - 1:
        return inside.format(x=use.inputs[0])
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return f"tf.transpose({inside.format(x=f'tf.transpose({use.inputs[0]}, {swap})')}, {swap})"


def axes_text(axes: Sequence[int]) -> str:
    """Return the text of a list of axes; `None` for an empty list, which means all axes."""
    return repr(list(axes)) if axes else "None"
