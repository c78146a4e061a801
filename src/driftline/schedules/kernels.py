"""The kernels of ordinary models as functions to schedule: the parent's side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftline.checking.convert import Conversions
from driftline.checking.open import MODEL, open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.tensors import numpy_dtype, save_tensors
from driftline.execute.pool import Pool
from driftline.programs.convert import accepts_directly, find_converter
from driftline.schedules.asking import TVM, schedule_worker
from driftline.schedules.functions import function_named
from driftline.schedules.requests import KERNELS, KernelRequest
from driftline.schedules.trace import RANDOM, ModelKernel

OPEN_SIZE = 2  # for the open sizes of a model
_SECONDS = 300.0


def is_model(name: str) -> bool:
    """True if a word of `--functions` names a model, not a function of `functions.py`."""
    return name.startswith(MODEL) or name.endswith(".onnx")


def expanded(names: Sequence[str], pool: Pool, space: str = RANDOM) -> tuple[tuple[str, ...], dict[str, ModelKernel]]:
    """Return the named functions, with models replaced by their kernels, and these kernels. They are made by workers of
    `space`, so that no other workers have to import TVM."""
    kernels: dict[str, ModelKernel] = {}
    functions: list[str] = []
    for name in names:
        if is_model(name):
            found = kernels_of(name, pool, space)
            kernels |= found
            functions += found
        else:
            functions.append(function_named(name).name)
    return tuple(functions), kernels


def kernels_of(text: str, pool: Pool, space: str = RANDOM) -> dict[str, ModelKernel]:
    """Return the kernels of a model, by `MODEL/KERNEL`."""
    options = CheckOptions(timeout=_SECONDS)
    loaded = open_program(text, pool, options)
    inputs = {spec.name: np.zeros(spec.sized(OPEN_SIZE), numpy_dtype(spec.dtype)) for spec in loaded.program.inputs}
    example = loaded.example or inputs
    case = Case(loaded.program, (Inputs(example, "example"),), (TVM,), options)
    program = loaded.program
    if not accepts_directly(program.form, program.framework, ("onnx",)):
        link = find_converter(program.form, program.framework, ("onnx",))
        made = Conversions(pool).convert(case, link) if link else None
        if made is None or made.program is None:
            why = f": {made.failure.message}" if made and made.failure else ""
            raise DriftlineError(f"{text} does not become an ONNX file, which TVM reads{why}.")
        program = made.program
    shapes = pool.workspace.job_folder() / "example"
    save_tensors(shapes, example)
    request = KernelRequest(program.path, shapes)
    report = pool.run(schedule_worker(space), KERNELS, request, timeout=_SECONDS)
    if report.answer is None:
        raise DriftlineError(f"{text}: TVM makes no kernels of it: {report.detail or report.ending}.")
    if not report.answer.kernels:
        raise DriftlineError(
            f"{text}: TVM makes {report.answer.others} kernels of it, none of which is exact in float32 and short; take"
            " a model of convolutions or matrix products, such as model:resnet."
        )
    return {f"{text}/{name}": kernel for name, kernel in report.answer.kernels.items()}
