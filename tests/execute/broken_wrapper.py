"""A compiler for tests: ONNX Runtime, driven by a backend of ours that has a bug."""

from __future__ import annotations

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.programs.opened import OpenedProgram


@register_backend
class BrokenWrapper(OnnxRuntime):
    name = "broken-wrapper"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        """Our own code asks None for its items. In the worker alone: the tests' process keeps this backend."""
        self.own_settings = lambda options: None  # type: ignore[assignment, method-assign, return-value]
        return super().compile(program, options)
