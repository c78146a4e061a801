"""Networks with small integers: as exporters of torch write them, and as the tools of ONNX Runtime do.

The ONNX ones are ONNX models from the start: their meaning is what the file says, quantisation included.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from driftline.models.export import onnx_model
from driftline.models.seeded import noise, shortened
from driftline.models.wrappers import Model

GROUP = 16


class Int4Linear(nn.Module):
    """A linear layer whose weights are packed two to a byte, with a scale and a zero point for each group of 16."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        grouped = linear.weight.detach().unflatten(1, (-1, GROUP)).double()
        low, high = grouped.amin(-1, keepdim=True).clamp(max=0), grouped.amax(-1, keepdim=True).clamp(min=0)
        scale = torch.from_numpy(shortened(((high - low) / 15).numpy(), 8)).double()
        zero = (-low / scale).round().clamp(0, 15)
        codes = (grouped / scale + zero).round().clamp(0, 15).to(torch.uint8).flatten(1)
        self.register_buffer("packed", codes[:, ::2] | (codes[:, 1::2] << 4))
        self.register_buffer("scale", scale.float())
        self.register_buffer("zero", zero.to(torch.uint8))
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        codes = torch.stack([self.packed & 15, self.packed >> 4], dim=-1).flatten(1).unflatten(1, (-1, GROUP))
        weight = (codes.to(x.dtype) - self.zero.to(x.dtype)) * self.scale
        return nn.functional.linear(x, weight.flatten(1), self.bias)


class FakeQuantized(nn.Module):
    """A convolution as training for quantisation sees it: weights and results rounded to eight bits and back."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        limit = layer.weight.detach().abs().amax(dim=(1, 2, 3))  # type: ignore[union-attr, operator]
        self.register_buffer("scales", torch.from_numpy(shortened((limit / 127).numpy(), 8)))
        self.register_buffer("zeros", torch.zeros(len(limit), dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        layer: Any = self.layer
        weight = torch.fake_quantize_per_channel_affine(layer.weight, self.scales, self.zeros, 0, -128, 127)
        found = nn.functional.conv2d(x, weight, layer.bias, layer.stride, layer.padding, layer.dilation, layer.groups)
        return torch.fake_quantize_per_tensor_affine(found, 0.0625, 0, -128, 127)


def _replace(module: Any, kind: Any, make: Any) -> None:
    for name, child in module.named_children():
        if isinstance(child, kind):
            setattr(module, name, make(child))
        else:
            _replace(child, kind, make)


def llama_int4() -> Model:
    from driftline.models.decoders import llama

    model = llama()
    _replace(model.module.model.model.layers, nn.Linear, Int4Linear)
    return model


def resnet_fake_int8() -> Model:
    from driftline.models.vision import resnet

    model = resnet()
    _replace(model.module, nn.Conv2d, FakeQuantized)
    return model


class _Calibration:
    """Eight seeded pictures for the tool that finds the ranges of activations."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self._batches: Iterator[dict[str, Any]] = iter({name: noise(f"calibration{n}", shape)} for n in range(8))

    def get_next(self) -> dict[str, Any] | None:
        return next(self._batches, None)


def mobilenet_v2_qdq() -> Model:
    """QuantizeLinear and DequantizeLinear around every layer, as ONNX Runtime's static quantisation writes them."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    from driftline.models.vision import mobilenet_v2

    CalibrationDataReader.register(_Calibration)
    model = mobilenet_v2()
    shape = tuple(model.inputs["pixel_values"].shape)
    with tempfile.TemporaryDirectory() as folder:
        plain, ready, made = (str(Path(folder) / f"{name}.onnx") for name in ("plain", "ready", "made"))
        Path(plain).write_bytes(onnx_model(model, "torchscript", 17).SerializeToString())
        quant_pre_process(plain, ready, skip_symbolic_shape=True)
        quantize_static(
            ready, made, _Calibration("pixel_values", shape), quant_format=QuantFormat.QDQ, per_channel=True,
            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        )  # fmt: skip
        return Model(_with_short_scales(made), _arrays(model.inputs))


def bert_dynamic_int8() -> Model:
    """Weights in int8; activations quantised at each call by the range that they have there."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from driftline.models.text import bert

    model = bert()
    with tempfile.TemporaryDirectory() as folder:
        plain, made = str(Path(folder) / "plain.onnx"), str(Path(folder) / "made.onnx")
        Path(plain).write_bytes(onnx_model(model, "torchscript", 14).SerializeToString())
        quantize_dynamic(plain, made, weight_type=QuantType.QInt8)
        return Model(_read(made), _arrays(model.inputs))


def llama_int4_onnx() -> Model:
    """Weights in four bits through `MatMulNBits`, the operator of ONNX Runtime that generators of text use."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    from driftline.models.decoders import llama

    model = llama()
    quantizer = MatMulNBitsQuantizer(onnx_model(model, "torchscript", 17), block_size=GROUP, is_symmetric=False)
    quantizer.process()
    return Model(quantizer.model.model, _arrays(model.inputs))


def _read(path: str) -> Any:
    import onnx

    return onnx.load(path)


def _with_short_scales(path: str) -> Any:
    """Scales of activations come from a run on this machine; without their last bits they are the same on all."""
    from onnx import numpy_helper

    model = _read(path)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("_scale"):
            tensor.CopyFrom(numpy_helper.from_array(shortened(numpy_helper.to_array(tensor), 8), tensor.name))
    return model


def _arrays(inputs: Any) -> dict[str, Any]:
    from driftline.core.structure import flatten

    return {name: np.asarray(tensor) for name, tensor in flatten(dict(inputs), "input").items()}
