"""The reference of ONNX models that the standard's evaluator cannot run, or only slowly: they are executed on torch."""

from __future__ import annotations

from typing import ClassVar

import torch

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Arrays
from driftline.programs.onnx.file import load_structure
from driftline.programs.onnx.player.call import Unplayable
from driftline.programs.onnx.player.player import OnnxPlayer
from driftline.programs.opened import OpenedProgram
from driftline.programs.torch_tensors import array_from_tensor, tensor_from_array


class PlayedOnnx:
    """Executes the model on torch, with weights mapped from its files."""

    alone: ClassVar[bool] = False

    def __init__(self, program: OpenedProgram) -> None:
        self._player = OnnxPlayer(load_structure(program.path), program.path.parent, alone=self.alone)

    def native(self, arrays: Arrays) -> Arrays:
        try:
            tensors = self.tensors(arrays)
        except Unplayable as reason:  # not the program's own error
            raise DriftlineError(f"Driftline's player cannot run it: {reason}") from reason
        return {name: array_from_tensor(tensor) for name, tensor in tensors.items()}

    def tensors(self, arrays: Arrays) -> dict[str, torch.Tensor]:
        """Run the model and return its outputs as tensors. A sequence is returned as separate items, `name.0`,
        `name.1`, ..."""
        feed = {name: tensor_from_array(arrays[name]) for name in self._player.input_names}
        with torch.backends.mkldnn.flags(enabled=False):  # as in the reference of torch programs
            outputs = self._player.run(feed)
        found: dict[str, torch.Tensor] = {}
        for name, value in outputs.items():
            if isinstance(value, list):
                found |= {f"{name}.{at}": item for at, item in enumerate(value)}
            else:
                found[name] = value
        return found


class PlayedAlone(PlayedOnnx):
    """Executes the model on torch without ever calling the standard's evaluator, as an independent reference."""

    alone = True
