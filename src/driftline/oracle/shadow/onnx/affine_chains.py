"""Chains of additions and multiplications with constants, which compilers fold into one multiplication and one
addition.

(x - mean) / std * gamma + beta becomes a * x + b. Where x lies near the mean, the difference is small and nearly exact,
but a * x and b are large and are rounded, so the folded form has the rounding errors of these two terms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from driftline.core.tensors import Array

_SHIFTS = ("Add", "Sub")
_SCALES = ("Mul", "Div")


class AffineChains:
    """Tracks affine chains through an ONNX graph by the names of values."""

    def __init__(self, constants: Iterable[str]) -> None:
        self._constants = frozenset(constants)
        self._sizes: dict[str, tuple[Array, bool]] = {}  # |a * x| + |b| of the folded form; True after a shift

    def folded_size(self, node: Any, args: tuple[Any, ...], result: Array) -> Array | None:
        """Return the size of the terms of the folded form, whose rounding errors remain in the result.

        Returns `None` where folding changes nothing: outside of chains, and before a shift is followed by a scale or
        shift.
        """
        name = str(node.op_type)
        fixed = [place for place, given in enumerate(node.input) if given in self._constants]
        if name not in (*_SHIFTS, *_SCALES) or len(node.input) != 2 or len(fixed) != 1:
            return None
        place = fixed[0]
        if name == "Div" and place == 0:
            return None
        constant, variable = args[place], args[1 - place]
        before, shifted = self._sizes.get(node.input[1 - place], (np.abs(variable), False))
        with np.errstate(all="ignore"):
            if name in _SHIFTS:
                size = before + np.abs(constant)
            else:
                size = before * np.abs(constant) if name == "Mul" else before / np.abs(constant)
        self._sizes[node.output[0]] = size, shifted or name in _SHIFTS
        return np.where(np.isfinite(size) & np.isfinite(result), size, 0.0) if shifted else None


def constants_of(initializers: Iterable[str], nodes: Iterable[Any], fed: Iterable[str]) -> set[str]:
    """Return the names of the values that depend on no input in `fed`; `nodes` must be in execution order."""
    known = set(initializers) - set(fed)
    for node in nodes:
        if all(name in known for name in node.input if name) and not getattr(node, "has_subgraph", False):
            known.update(node.output)
    return known
