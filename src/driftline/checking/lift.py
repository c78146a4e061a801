"""Dtype lift: the same program, on the same numbers, in float32.

A bug that is smaller than the rounding of float16 or bfloat16 cannot be seen there; in float32, through the same
compiler, it can.
"""

from __future__ import annotations

from collections.abc import Sequence

from driftline.checking.open import LoadedProgram, open_program, open_source
from driftline.core.case import CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, SourceBundle
from driftline.core.quoting import comment
from driftline.core.tensors import numpy_dtype
from driftline.execute.pool import Pool
from driftline.oracle.judge import Reference
from driftline.programs.onnx_file import model_from, serialised
from driftline.programs.onnx_floats import with_floats_in

HALF_TYPES = ("float16", "bfloat16")
MOST_WEIGHTS = 64 << 20  # bytes; lifted, they take twice as much

_LIFTED = """# {name} with its half-precision tensors in float32.

import torch
from torch.utils._pytree import tree_map
from {module} import {entry} as make


def lifted(value):
    half = isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.float() if half else value


def program():
    model, inputs = make()
    if isinstance(model, torch.nn.Module):
        model = model._apply(lifted)
    return model, tree_map(lifted, inputs)
"""


def cannot_be_lifted(program: Program, reference: Reference) -> str:
    """Why there is no float32 form of a program to check; empty: there is one."""
    results = [array for sample in reference.samples for array in sample.native.values()]
    types = {*(spec.dtype for spec in program.inputs), *(array.dtype.name for array in results)}
    if not types.intersection(HALF_TYPES):
        return f"{program.name} has no input or result in half precision."
    if program.form == "onnx" or (program.form == "source" and program.framework == "torch"):
        return ""
    return "it takes ONNX models, and torch programs that are given as file.py:name or model:NAME."


def lift(program: Program, pool: Pool, options: CheckOptions) -> LoadedProgram | None:
    """The program in float32; `None` when it cannot be loaded that way (it reads files beside itself, say)."""
    try:
        return _lifted_onnx(program, pool, options) if program.form == "onnx" else _lifted(program, pool, options)
    except DriftlineError:
        return None


def lifted_samples(samples: Sequence[Inputs]) -> tuple[Inputs, ...]:
    """The same numbers in float32, where they are in half precision."""
    single = numpy_dtype("float32")
    return tuple(
        Inputs({n: a.astype(single) if a.dtype.name in HALF_TYPES else a for n, a in one.arrays.items()}, one.origin)
        for one in samples
    )


def _lifted(program: Program, pool: Pool, options: CheckOptions) -> LoadedProgram:
    bundle = SourceBundle.load(program.path.read_bytes())
    module = bundle.entry_file.removesuffix(".py").replace("/", ".")
    text = _LIFTED.format(name=comment(program.name), module=module, entry=bundle.entry_name)
    lifted = SourceBundle("driftline_lifted.py", "program", {**bundle.files, "driftline_lifted.py": text})
    return open_source(lifted, pool, options, name=f"{program.name} in float32")


def _lifted_onnx(program: Program, pool: Pool, options: CheckOptions) -> LoadedProgram:
    path = pool.workspace.job_folder() / "in_float32.onnx"
    model = with_floats_in(model_from(serialised(program.path)), "float32", HALF_TYPES)
    path.write_bytes(model.SerializeToString())
    return open_program(str(path), pool, options)
