"""Compilers built on ONNX Runtime that are right when a program is called once, and wrong when it is called again."""

from __future__ import annotations

import threading
import time

from driftline import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


class Forgetful(OnnxRuntime):
    family = "onnxruntime"
    threads = True


@register_backend
class KeepsFirstInput(Forgetful):
    """It takes the first inputs for constants."""

    name = "keeps-first-input"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest, kept = super().compile(program, options), {}

        def run(arrays: Arrays) -> Arrays:
            if not kept:
                kept.update(honest(arrays))
            return dict(kept)

        return run


@register_backend
class ReturnsOldBuffer(Forgetful):
    """From the third call on, it returns what the call before computed."""

    name = "returns-old-buffer"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)
        before: list[Arrays] = []

        def run(arrays: Arrays) -> Arrays:
            before.append(honest(arrays))
            return before[-2] if len(before) > 2 else before[-1]

        return run


@register_backend
class DiesWhenCalledAgain(Forgetful):
    name = "dies-when-called-again"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)
        calls: list[Arrays] = []

        def run(arrays: Arrays) -> Arrays:
            if calls:
                raise RuntimeError("the workspace was given back")
            calls.append(arrays)
            return honest(arrays)

        return run


@register_backend
class SharesBuffer(Forgetful):
    """All calls write to one buffer, which is added to what they return: right as long as no two of them meet."""

    name = "shares-buffer"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)
        inside, lock = [0], threading.Lock()

        def run(arrays: Arrays) -> Arrays:
            with lock:
                inside[0] += 1
            time.sleep(0.001)
            met = inside[0] > 1
            with lock:
                inside[0] -= 1
            return {name: array + met for name, array in honest(arrays).items()}

        return run
