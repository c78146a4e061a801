"""A model of the corpus as a file: a torch.export archive, or ONNX from either exporter of torch.

The TorchScript exporter at opset 14 writes what `optimum` writes: inputs and outputs by their names, and dynamic axes
that have names too.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from driftline.core.structure import flatten, rebuild

# Axes that a user of the file may choose, by the name of the input (or its beginning).
_AXES: dict[str, dict[int, str]] = {
    "input_ids": {0: "batch", 1: "sequence"},
    "token_type_ids": {0: "batch", 1: "sequence"},
    "position_ids": {0: "batch", 1: "sequence"},
    "attention_mask": {0: "batch", 1: "sequence"},
    "decoder_input_ids": {0: "batch", 1: "decoder_sequence"},
    "pixel_values": {0: "batch"},
    "input_features": {0: "batch"},
    "past_key_values.": {0: "batch", 2: "past_sequence"},
}


class FlatArguments(nn.Module):
    """Tensors in the order of `names` in, a tuple of tensors out: what the TorchScript exporter takes."""

    def __init__(self, module: Any, inputs: Mapping[str, Any]) -> None:
        super().__init__()
        self.module = module
        self.training = module.training  # an exporter puts all of it back into the mode of the outermost module
        self._inputs = dict(inputs)
        found = flatten(self._inputs, "input")
        self.names, self.example = tuple(found), tuple(found.values())
        self.outputs: tuple[str, ...] = ()

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(self.names, tensors, strict=True))
        results = flatten(self.module(**rebuild(self._inputs, lambda name, leaf: given[name])), "output")
        self.outputs = tuple(results)
        return tuple(results.values())


def save_pt2(model: tuple[Any, Mapping[str, Any]], path: Path) -> None:
    module, inputs = model
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (), dict(inputs), strict=False), str(path))


def onnx_model(model: tuple[Any, Mapping[str, Any]], exporter: str, opset: int, *, dynamic: bool = False) -> Any:
    """The ONNX model that an exporter of torch makes; the axes of `dynamic` ones are named."""
    import onnx

    module, inputs = model
    flat = FlatArguments(module, inputs)
    given = dict(zip(flat.names, flat.example, strict=True))
    with torch.no_grad():
        results = flat(*flat.example)
    axes = dynamic_axes(given, dict(zip(flat.outputs, results, strict=True))) if dynamic else {}
    data = io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        common: dict[str, Any] = {
            "input_names": list(flat.names),
            "output_names": list(flat.outputs),
            "opset_version": opset,
            "verbose": False,
        }
        if exporter == "torchscript":
            with _without_packing():
                torch.onnx.export(flat, flat.example, data, dynamo=False, dynamic_axes=axes or None, **common)
            return onnx.load_model_from_string(data.getvalue())
        shapes = (tuple(axes.get(name, {}) for name in flat.names),) if axes else None
        made = torch.onnx.export(flat, flat.example, dynamo=True, dynamic_shapes=shapes, **common)
        assert made is not None
        return made.model_proto


@contextlib.contextmanager
def _without_packing() -> Iterator[None]:
    """Transformers looks for several texts packed into one row by operators that the TorchScript exporter does not
    know (`diff`) or writes wrongly (`cumsum` of booleans). The examples have none; optimum replaces such parts too."""
    masks: Any = sys.modules.get("transformers.masking_utils")  # the model has been built: it is here if it is needed
    if masks is None:
        yield
        return
    look = masks.find_packed_sequence_indices
    masks.find_packed_sequence_indices = lambda position_ids: None
    try:
        yield
    finally:
        masks.find_packed_sequence_indices = look


def dynamic_axes(inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> dict[str, dict[int, str]]:
    """The axes that may have other sizes in another call, by name; those of results are found by their sizes."""
    found = {name: dict(axes) for name in inputs for begin, axes in _AXES.items() if _fits(name, begin)}
    if any(name.startswith("past_key_values.") for name in inputs):
        found["attention_mask"][1] = "past_and_new_sequence"
    if {"pixel_values", "input_ids"} <= set(found):  # as many pictures as texts there need not be
        for name, axes in found.items():
            axes[0] = "image_batch" if name == "pixel_values" else "text_batch"
    sizes = {inputs[name].shape[axis]: called for name, axes in found.items() for axis, called in axes.items()}
    for name, tensor in outputs.items():
        axes = {axis: sizes[size] for axis, size in enumerate(tensor.shape) if size in sizes}
        found[name] = {axis: called for axis, called in axes.items() if ("batch" in called) == (axis == 0)}
    return found


def _fits(name: str, begin: str) -> bool:
    return name.startswith(begin) if begin.endswith(".") else name == begin
