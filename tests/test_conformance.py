"""Every built-in backend against the suite that is shipped for backend authors."""

from __future__ import annotations

import pytest

from driftline.backends import BACKENDS
from driftline.testing import BackendConformance

# The others compile for seconds: the suite takes them from twenty seconds to several minutes.
FAST = ("eager", "aot_eager", "torchscript", "onnx-reference", "onnxruntime", "tensorrt")


def _suite(name: str) -> type[BackendConformance]:
    marks = [] if name in FAST else [pytest.mark.slow]
    members = {"backend": name, "pytestmark": marks, "__module__": __name__}
    return type(f"Test_{name.replace('-', '_').replace(':', '_')}", (BackendConformance,), members)


globals().update(
    {suite.__name__: suite for suite in map(_suite, BACKENDS.names()) if not suite.backend.startswith("planted-")}
)
