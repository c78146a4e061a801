"""Compilers built on eager and on ONNX Runtime whose errors are too small to be seen in bfloat16, or in one element."""

from __future__ import annotations

import numpy as np

from driftline import register_backend
from driftline.backends._torch import TorchRunner
from driftline.backends.base import Backend, Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


class Imprecise(Backend):
    accepts = ("source:torch", "onnx")
    module = "torch"
    family = "eager"
    mutates = True

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        if program.form == "onnx":
            honest = OnnxRuntime().compile(program, {"opt": "off"})
        else:
            honest = TorchRunner(program, program.live.function)

        def run(arrays: Arrays) -> Arrays:
            return {name: self.spoilt(np.array(array)) for name, array in honest(arrays).items()}

        return run

    def spoilt(self, array: np.ndarray) -> np.ndarray:
        raise NotImplementedError


@register_backend
class OneElementOff(Imprecise):
    name = "one-element-off"

    def spoilt(self, array: np.ndarray) -> np.ndarray:
        flat = array.reshape(-1)
        place = np.argsort(np.abs(flat.astype(np.float64)))[flat.size // 2]
        flat[place] = array.dtype.type(float(flat[place]) * 1.01)
        return array


@register_backend
class ScaleOff(Imprecise):
    name = "scale-off"

    def spoilt(self, array: np.ndarray) -> np.ndarray:
        return (array.astype(np.float64) * 1.001).astype(array.dtype)


@register_backend
class DriftsWhereLarge(Imprecise):
    name = "drifts-where-large"

    def spoilt(self, array: np.ndarray) -> np.ndarray:
        wide = array.astype(np.float64)
        return np.where(wide > 1000, wide * (1 + 4e-7), wide).astype(array.dtype)
