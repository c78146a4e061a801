"""Dtype lift: checks a half-precision program on the same numbers in float32.

An error below the rounding of float16 or bfloat16 can be seen in float32, through the same compiler. An error that
shows only there is reported as advice about the compiler, since the original program is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from driftline.checking.checker import Checker, CheckOutcome, TargetResult
from driftline.checking.open import LoadedProgram, open_program, open_source
from driftline.checking.precision import reviewed
from driftline.core.case import CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.execution import Outcome
from driftline.core.program import Program, SourceBundle
from driftline.core.quoting import comment
from driftline.core.tensors import numpy_dtype
from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool
from driftline.oracle.judge import OF_PRECISION, Reference
from driftline.programs.onnx.file import model_from, serialised
from driftline.programs.onnx.floats import with_floats_in

HALF_TYPES = ("float16", "bfloat16")
MOST_WEIGHTS = 64 << 20  # bytes; twice as many in float32

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
    """Return why a program cannot be checked in float32, or an empty string if it can."""
    results = [array for sample in reference.samples for array in sample.native.values()]
    types = {*(spec.dtype for spec in program.inputs), *(array.dtype.name for array in results)}
    if not types.intersection(HALF_TYPES):
        return f"{program.name} has no input or result in half precision."
    if program.form == "onnx" or (program.form == "source" and program.framework == "torch"):
        return ""
    return "it takes ONNX models, and torch programs that are given as file.py:name or model:NAME."


def lift(program: Program, pool: Pool, options: CheckOptions) -> LoadedProgram | None:
    """Return the program in float32; None if it cannot be loaded that way (for example, if it reads other files)."""
    try:
        return _lifted_onnx(program, pool, options) if program.form == "onnx" else _lifted(program, pool, options)
    except DriftlineError:
        return None


def check_lifted(checker: Checker, outcome: CheckOutcome) -> list[str]:
    """Check the float32 form on the targets that have not failed; return sentences about the wrong ones."""
    name = outcome.case.program.name
    opened = lift(outcome.case.program, checker.pool, outcome.case.options)
    open_rows = (Judgement.PASS, Judgement.REDUCED, Judgement.INCONCLUSIVE)
    asked = [
        row.target
        for row in outcome.results
        if row.verdict.judgement in open_rows and row.execution.outcome is Outcome.OK and not row.internal_error
    ]
    if opened is None:
        return [f"{name} could not be loaded in float32, where small errors show."]
    if not asked:
        return ["No target was left to be checked in float32."]
    samples = lifted_samples(outcome.case.samples)
    case = replace(outcome.case, program=opened.program, samples=samples, targets=tuple(asked))
    again = checker.check(case, review=partial(reviewed, checker)).results
    judged = [str(row.target) for row in again if row.verdict.judgement in (Judgement.PASS, Judgement.FAIL)]
    told = "Also checked in float32 on the same numbers, where errors show that half precision hides"
    told += f": {', '.join(judged)}." if judged else ", but nothing could be judged there."
    return [told, *(_advice(row) for row in again if _is_wrong(row))]


def _is_wrong(row: TargetResult) -> bool:
    """True for wrong numbers. Other failures in float32, such as compile errors, do not concern this program."""
    return row.verdict.judgement is Judgement.FAIL and row.verdict.kind in OF_PRECISION


def _advice(row: TargetResult) -> str:
    return f"{row.target} is wrong in float32 alone, which is no failure of this program: {row.verdict.reason}."


def lifted_samples(samples: Sequence[Inputs]) -> tuple[Inputs, ...]:
    """Return the samples with half-precision numbers converted to float32."""
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
