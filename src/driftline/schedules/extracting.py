"""Extracts the kernels that TVM makes of an ordinary model, as functions to schedule: the worker's side.

An ONNX model goes through TVM's importer, legalisation and fusion; each resulting tensor program is a kernel. Only
kernels that are exact in float32 in any order are kept, so that a difference is a bug: those that only add, multiply,
compare and select. The others divide, call a function, use other types, or take too long.
"""

from __future__ import annotations

import math
import re
from typing import Any

from driftline.core.task import Context
from driftline.core.tensors import load_tensors
from driftline.schedules.requests import KERNELS, KernelAnswer, KernelRequest
from driftline.schedules.trace import ModelKernel

MOST_ITERATIONS = 200_000  # of one loop nest
_WORDS = frozenset(
    "prim_func Buffer func_attr sblock sblock_alloc_buffer sblock_attr grid serial axis reads writes init where"
    " int32 int64 bool float32 max min if_then_else Select".split()
)


@KERNELS.serve
def extract(request: KernelRequest, context: Context) -> KernelAnswer:
    import onnx
    import tvm
    from tvm import relax

    from driftline.backends.tvm import ImportedModel

    module = ImportedModel(onnx.load(str(request.model)), load_tensors(request.example)).module()
    passes = ("DecomposeOpsForInference", "LegalizeOps", "AnnotateTIROpPattern", "FuseOps", "FuseTIR")
    with tvm.target.Target("llvm"):
        for name in passes:
            module = getattr(relax.transform, name)()(module)
    found: dict[str, ModelKernel] = {}
    others = 0
    for name, function in sorted((str(var.name_hint), made) for var, made in module.functions.items()):
        if type(function).__name__ != "PrimFunc":
            continue
        kernel = _kernel(function)
        if kernel is None or not exact(kernel.text) or iterations(kernel.text) > MOST_ITERATIONS:
            others += 1
        elif kernel not in found.values():
            found[name] = kernel
    return KernelAnswer(found, others)


def _kernel(function: Any) -> ModelKernel | None:
    """Return a kernel from a function's TVMScript, without what belongs to its module; None if a shape is not fixed."""
    names = [str(parameter.name) for parameter in function.params]
    text = re.sub(r"^#.*\n", "", str(function.script()), flags=re.MULTILINE).strip()
    text = text.replace("private=True, ", "", 1).replace("def main(", "def func(", 1)
    text = re.sub(r"^ *T\.func_attr\(.*\n", "", text, flags=re.MULTILINE)
    if len(re.findall(r"\w+: T\.Buffer\(", text.partition("):\n")[0])) != len(names):
        return None
    written = {one.split("[")[0] for line in re.findall(r"T\.writes\((.*)\)", text) for one in line.split(", ")}
    outputs = tuple(name for name in names if name in written)
    return ModelKernel(text, tuple(name for name in names if name not in outputs), outputs) if outputs else None


def exact(text: str) -> bool:
    """True if all numbers are float32 and every operation is exact for small integers in any order."""
    if " / " in text or not set(re.findall(r"\bT\.(\w+)", text)) <= _WORDS:
        return False
    types = re.findall(r'T\.Buffer\([^"]*"(\w+)"', text) + re.findall(r'alloc_buffer\(\([^"\n]*\), "(\w+)"', text)
    numbers = [float(number) for number in re.findall(r"T\.float32\(([^)\"]*)\)", text)]
    return set(types) <= {"float32"} and all(abs(one) > 1e30 or one == int(one) for one in numbers)


def iterations(text: str) -> int:
    """Return the number of iterations of the longest loop nest."""
    nests = re.findall(r"T\.grid\((.*)\):", text)
    return max(
        (math.prod(int(n) for n in re.findall(r"\b(\d+)\b", one.replace("int64", ""))) for one in nests), default=1
    )
