"""Experiments on a failing case: whether it passes with an option, in another dtype, or without a class of inputs.

Each experiment is an ordinary check, made only if its answer can decide whether a cause explains the failure.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from driftline.backends import resolve
from driftline.causes import Library, Question, Sighting
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.open import open_program, open_source
from driftline.core.case import Case, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.evidence import InputClass
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.tensors import Array, Arrays, is_float, numpy_dtype
from driftline.inputs.without import without
from driftline.programs.onnx.file import model_from, serialised
from driftline.programs.onnx.floats import SMALL_FLOATS, with_floats_in
from driftline.programs.settings import without_setting

MOST = 6  # questions about one case
_ONNX_FLOATS = (*SMALL_FLOATS, "float64")

_CAST = '''"""{name} in {dtype}."""

import torch
from torch.utils._pytree import tree_map
from {module} import {entry} as make

DTYPE = torch.{dtype}


def cast(value):
    if not isinstance(value, torch.Tensor) or value.dtype == torch.bool or value.is_complex():
        return value
    return value.to(DTYPE) if value.is_floating_point() == DTYPE.is_floating_point else value


def program():
    model, inputs = make()
    if isinstance(model, torch.nn.Module):
        model = model._apply(cast)
    return model, tree_map(cast, inputs)
'''


def answered(
    checker: Checker, case: Case, result: TargetResult, seen: Sighting, library: Library
) -> dict[Question, bool]:
    """Run the experiments that the causes in `library` ask for and return their answers; experiments that cannot be
    made are left out."""
    found = dict(seen.answers)
    for question in library.questions(seen)[:MOST]:
        answer = ask(checker, case, result.target, question)
        if answer is not None:
            found[question] = answer
    return found


def ask(checker: Checker, case: Case, target: Target, question: Question) -> bool | None:
    """True if the case passes under the condition of `question`, False if it fails, None if it cannot be tried."""
    try:
        varied = _varied(checker, case, target, question)
        if varied is None:
            return None
        outcome = checker.check(varied)
    except DriftlineError:
        return None
    return outcome.results[0].verdict.agrees if outcome.results else None


def _varied(checker: Checker, case: Case, target: Target, question: Question) -> Case | None:
    if question.what == "with":
        name, _, value = question.value.partition("=")
        other = replace(target, options=tuple({**dict(target.options), name: value}.items()))
        resolve(other)
        return replace(case, targets=(other,))
    case = case.only(target)
    if question.what == "without":
        changed = [without(one.arrays, InputClass(question.value)) for one in case.samples]
        samples = tuple(
            one if arrays is None else Inputs(arrays, one.origin)
            for one, arrays in zip(case.samples, changed, strict=True)
        )
        return replace(case, samples=samples) if any(arrays is not None for arrays in changed) else None
    if question.what == "unset":
        return _unset(checker, case, question.value)
    return _cast(checker, case, question.value)


def _cast(checker: Checker, case: Case, dtype: str) -> Case | None:
    """Return the case in another dtype of the same class, or None. Works on torch programs in source form and on ONNX
    models."""
    program = case.program
    if case.deployed:
        return None
    samples = tuple(Inputs(_cast_arrays(one.arrays, dtype), one.origin) for one in case.samples)
    if program.form == "onnx" and dtype in _ONNX_FLOATS:
        changed = checker.pool.workspace.job_folder() / f"{dtype}.onnx"
        model = with_floats_in(model_from(serialised(program.path)), dtype, _ONNX_FLOATS)
        changed.write_bytes(model.SerializeToString())
        opened = open_program(str(changed), checker.pool, case.options)
        return replace(case, program=opened.program, samples=samples)
    if program.form != "source" or program.framework != "torch":
        return None
    bundle = SourceBundle.load(program.path.read_bytes())
    module = bundle.entry_file.removesuffix(".py").replace("/", ".")
    text = _CAST.format(name=program.name, dtype=dtype, module=module, entry=bundle.entry_name)
    wrapped = SourceBundle("driftline_cast.py", "program", {**bundle.files, "driftline_cast.py": text})
    opened = open_source(wrapped, checker.pool, case.options, name=f"{program.name} in {dtype}")
    return replace(case, program=opened.program, samples=samples)


def _unset(checker: Checker, case: Case, name: str) -> Case | None:
    """Return the case of an ONNX model with an operator attribute removed, or None. Inputs that the model no longer has
    are dropped."""
    if case.deployed or case.program.form != "onnx":
        return None
    model = without_setting(model_from(serialised(case.program.path)), name)
    if model is None:
        return None
    changed = checker.pool.workspace.job_folder() / "unset.onnx"
    changed.write_bytes(model.SerializeToString())
    opened = open_program(str(changed), checker.pool, case.options)
    left = {one.name for one in model.graph.input}
    samples = tuple(
        Inputs({key: array for key, array in one.arrays.items() if key in left}, one.origin) for one in case.samples
    )
    return replace(case, program=opened.program, samples=samples)


def _cast_arrays(arrays: Arrays, dtype: str) -> Arrays:
    with np.errstate(all="ignore"):
        return {
            name: array.astype(numpy_dtype(dtype)) if _is_number(array) and _alike(array, dtype) else array
            for name, array in arrays.items()
        }


def _is_number(array: Array) -> bool:
    return array.dtype.kind not in "bc"


def _alike(array: Array, dtype: str) -> bool:
    return is_float(array.dtype.name) == is_float(dtype)
