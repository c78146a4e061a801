"""Converts constants of a model to tensors, without a copy where the file's bytes can be used directly."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from driftline.programs.onnx.file import is_external, mapped
from driftline.programs.onnx.player.call import Unplayable
from driftline.programs.torch_tensors import tensor_on_array

_FOUR_BITS = {"int4": (np.int8, 22), "uint4": (np.uint8, 21)}


def tensor_of(proto: Any, folder: Path | None = None) -> torch.Tensor:
    """Return a TensorProto as a tensor; data in a file of `folder` is mapped. A tensor is returned unchanged."""
    from onnx import TensorProto, numpy_helper

    if isinstance(proto, torch.Tensor):
        return proto
    if proto.data_type == TensorProto.STRING:
        raise Unplayable("tensors of strings")
    if folder is not None and is_external(proto):
        return tensor_from(mapped(proto, folder))
    return tensor_from(numpy_helper.to_array(proto))


def tensor_from(array: Any) -> torch.Tensor:
    """Return a tensor that shares the memory of this array, which is never written to."""
    name = array.dtype.name
    if name in _FOUR_BITS:
        wider, element = _FOUR_BITS[name]
        tensor = torch.from_numpy(array.astype(wider))
        tensor.onnx_element = element  # type: ignore[attr-defined]
        return tensor
    array = np.asarray(array, order="C")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that the array is read-only, as intended
        try:
            return tensor_on_array(array)
        except TypeError as error:
            raise Unplayable(f"tensors of type {name}") from error


def four_bits(tensor: torch.Tensor) -> int:
    """Return the ONNX element type of a four-bit constant, which is stored in eight bits; 0 for all others."""
    return int(getattr(tensor, "onnx_element", 0))
