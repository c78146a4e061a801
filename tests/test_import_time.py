"""The parent process starts fast and never imports a compiler."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LIMIT = 0.150  # seconds of the processor: other programs may use the machine
COMPILERS = {
    "torch", "onnx", "onnxruntime", "openvino", "tvm", "iree", "jax", "jaxlib", "tensorflow", "keras", "torchax",
    "executorch", "ai_edge_litert",
}  # fmt: skip

MEASURE = """
import json, sys, time
started = time.process_time()
import driftline
seconds = time.process_time() - started
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps({"seconds": seconds, "modules": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def measure(*modules: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", MEASURE, *modules], capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_import_driftline_is_fast() -> None:
    best = min(float(str(measure()["seconds"])) for _ in range(5))
    assert best < LIMIT


@pytest.mark.parametrize(
    "module", ["driftline.checking.checker", "driftline.cli", "driftline.checking.open", "driftline.bench.runner"]
)
def test_no_compiler_is_imported(module: str) -> None:
    assert not COMPILERS & set(measure(module)["modules"])  # type: ignore[call-overload]
