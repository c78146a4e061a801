"""torch, for programs written by a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from driftline.core.tensors import DTYPES, Array, Shape
from driftline.generate.authored.language import Language, is_inexact, writes_numbers
from driftline.generate.torch_samples import dtype_name, twin
from driftline.generate.torch_text import example_text
from driftline.programs.torch_tensors import array_from_tensor


class TorchLanguage(Language):
    form = "torch"

    def is_tensor(self, leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor)

    def is_ordinary(self, tensor: Any) -> bool:
        return (
            tensor.layout == torch.strided
            and tensor.device.type == "cpu"
            and not tensor.is_quantized
            and dtype_name(tensor.dtype) in DTYPES
        )

    def call(self, model: Callable[..., Any], inputs: Sequence[Any]) -> Any:
        with torch.no_grad():
            return model(*(twin(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in inputs))

    def array(self, tensor: Any) -> Array:
        return array_from_tensor(tensor)

    def resized(self, tensor: Any, shape: Shape) -> torch.Tensor:
        count = int(torch.Size(shape).numel())
        flat = tensor.detach().flatten()
        if not flat.numel():
            return torch.ones(shape, dtype=tensor.dtype)
        return flat.repeat(-(-count // flat.numel()))[:count].reshape(shape)

    def example(self, tensor: Any) -> str:
        dtype = dtype_name(tensor.dtype)
        few = writes_numbers(dtype, tensor.numel())
        return example_text(tensor, numbers=few, fill="ones" if is_inexact(dtype) else "zeros")

    def trains(self, model: Any) -> bool:
        return isinstance(model, torch.nn.Module) and model.training
