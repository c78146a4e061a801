"""Shared code of the backends that run on JAX: switching on 64-bit types, which are off by default."""

from __future__ import annotations

import importlib
from typing import Any

from driftline.core.tensors import Arrays

_WIDE = ("float64", "int64", "uint64", "complex128")


def precision(wide: bool, arrays: Arrays) -> Any:
    """Return a context manager that enables 64-bit types if `wide` is set or an input needs them."""
    import jax

    switch: Any = getattr(jax, "enable_x64", None)
    if switch is None:  # before jax 0.8
        switch = importlib.import_module("jax.experimental").enable_x64
    return switch(wide or any(array.dtype.name in _WIDE for array in arrays.values()))
