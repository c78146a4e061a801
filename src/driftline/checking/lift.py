"""Dtype lift: the same program in float32.

A bug that is smaller than the rounding of float16 or bfloat16 cannot be seen there; in float32, through the same
compiler, it can.
"""

from __future__ import annotations

from driftline.checking.open import LoadedProgram, open_source
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, SourceBundle
from driftline.core.quoting import comment
from driftline.execute.pool import Pool

_HALF = ("float16", "bfloat16")

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


def can_be_lifted(program: Program) -> bool:
    """Half-precision torch programs in source form."""
    half = any(spec.dtype in _HALF for spec in program.inputs)
    return half and program.form == "source" and program.framework == "torch"


def cannot_be_lifted(program: Program) -> str:
    """Why `--lift` does nothing; empty: it does something."""
    if can_be_lifted(program):
        return ""
    if not any(spec.dtype in _HALF for spec in program.inputs):
        return f"--lift changed nothing: {program.name} has no input in half precision."
    return "--lift changed nothing: it takes torch programs that are given as file.py:name or model:NAME."


def lift(program: Program, pool: Pool, options: CheckOptions) -> LoadedProgram | None:
    """The program in float32; `None` when it cannot be loaded that way (it reads files beside itself, say)."""
    bundle = SourceBundle.load(program.path.read_bytes())
    module = bundle.entry_file.removesuffix(".py").replace("/", ".")
    text = _LIFTED.format(name=comment(program.name), module=module, entry=bundle.entry_name)
    lifted = SourceBundle("driftline_lifted.py", "program", {**bundle.files, "driftline_lifted.py": text})
    try:
        return open_source(lifted, pool, options, name=f"{program.name} in float32")
    except DriftlineError:
        return None
