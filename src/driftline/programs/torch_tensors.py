"""Converts between numpy arrays and torch tensors, including dtypes that numpy does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from driftline.core.tensors import Array, numpy_dtype

# dtypes that travel as their bits: torch cannot take them from numpy, nor give them to it
_BITS: dict[str, tuple[Any, Any, torch.dtype]] = {
    "bfloat16": (np.uint16, torch.uint16, torch.bfloat16),
    "float8_e4m3fn": (np.uint8, torch.uint8, torch.float8_e4m3fn),
    "float8_e5m2": (np.uint8, torch.uint8, torch.float8_e5m2),
}
_NAMES = {torch_dtype: name for name, (_, _, torch_dtype) in _BITS.items()}


def tensor_from_array(array: Array) -> torch.Tensor:
    """Return a tensor that owns its memory, so that in-place operations do not change the array."""
    return tensor_on_array(np.array(array, copy=True, order="C"))


def tensor_on_array(array: Array) -> torch.Tensor:
    """Return a tensor that shares the memory of a contiguous array."""
    if array.dtype.name in _BITS:
        bits, _, dtype = _BITS[array.dtype.name]
        if not array.size:
            return torch.empty(array.shape, dtype=dtype)
        # Not `.view(dtype)`: a tracer that records the program would take a cast of bits for a part of it.
        return torch.frombuffer(array.reshape(-1).view(bits), dtype=dtype).reshape(array.shape)
    return torch.from_numpy(array)


def array_from_tensor(tensor: torch.Tensor) -> Array:
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg().cpu().contiguous()
    name = _NAMES.get(tensor.dtype)
    if name is None:
        return np.array(tensor.numpy(), copy=True)
    _, bits, _ = _BITS[name]
    return np.array(tensor.view(bits).numpy(), copy=True).view(numpy_dtype(name))
