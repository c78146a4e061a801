"""A compiler for tests: ONNX Runtime, driven by a backend of ours that has a bug."""

from __future__ import annotations

from driftline.backends import register_backend
from driftline.backends.base import Options
from driftline.backends.onnxruntime import OnnxRuntime


@register_backend
class BrokenWrapper(OnnxRuntime):
    name = "broken-wrapper"

    def own_settings(self, options: Options) -> dict[str, str]:
        return None  # type: ignore[return-value]  # so our own code asks None for its items
