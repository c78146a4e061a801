"""Make twins of a program: the same operators on tensors in another memory layout, or of another dtype of the same
width.

layout   inputs and weights of four axes become channels-last; others have their last two axes swapped
dtype    float16 and bfloat16, float32 and int32, float64 and int64, int8 and uint8 stand for each other
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import ml_dtypes
import numpy as np

from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case
from driftline.core.errors import DriftlineError
from driftline.core.program import SourceBundle
from driftline.core.tensors import Array
from driftline.core.text import first_line

LAYOUT, DTYPE = "layout", "dtype"
MADE_TWINS = {
    LAYOUT: "the same program on tensors in another memory layout",
    DTYPE: "the same program in another dtype of the same width",
}
_PAIRS = (
    ("float16", "bfloat16"),
    ("float32", "int32"),
    ("float64", "int64"),
    ("int8", "uint8"),
)
_OTHER = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_STEP = 8  # floats that become integers are multiplied by this: most are smaller than 1
_FILE = "driftline_twin.py"
_TEXT = '''"""{module}.{entry}, with another {kind}."""

import importlib

import torch

OTHER = {other!r}
STEP = {step}


def layout(x):
    if x.dim() < 2:
        return x
    swapped = x.transpose(-1, -2).contiguous().transpose(-1, -2)
    laid = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else swapped
    return x.contiguous() if laid.stride() == x.stride() else laid


def dtype(x):
    name = OTHER.get(str(x.dtype).removeprefix("torch."))
    if name is None:
        return x
    new = getattr(torch, name)
    return (x * STEP).round().to(new) if x.is_floating_point() and not new.is_floating_point else x.to(new)


def program():
    function, inputs = importlib.import_module({module!r}).{entry}()
    if not isinstance(inputs, (tuple, list)) or not all(isinstance(x, torch.Tensor) for x in inputs):
        raise ValueError("only a program whose inputs are a tuple of tensors has a twin that is made for it")
    weights = [*function.parameters(), *function.buffers()] if isinstance(function, torch.nn.Module) else []
    changed = [{kind}(x) for x in inputs]
    if all(new.dtype == x.dtype and new.stride() == x.stride() for new, x in zip(changed, inputs)):
        raise ValueError("no input has another {kind}")
    for weight in weights:
        weight.requires_grad_(False)
        weight.data = {kind}(weight.data)
    return function, tuple(changed)
'''


def made_twin(checker: Checker, case: Case, kind: str) -> Case:
    """Return the twin of a torch program in Python, with the same numbers. Raise if there is none."""
    program = case.program
    if program.form != "source" or program.framework != "torch":
        raise DriftlineError(f"{program.name}: a twin is made of torch programs in Python; name another program.")
    bundle = SourceBundle.load(program.path.read_bytes())
    module = PurePath(bundle.entry_file).stem
    text = _TEXT.format(module=module, entry=bundle.entry_name, kind=kind, other=_OTHER, step=_STEP)
    twin = SourceBundle(_FILE, "program", {**bundle.files, _FILE: text})
    try:
        opened = open_source(twin, checker.pool, case.options, name=f"{program.name}, another {kind}")
    except DriftlineError as error:
        raise DriftlineError(f"there is no twin in another {kind}: {first_line(str(error))}") from error
    made = replace(opened.program, operators=program.operators, pattern=program.pattern)
    samples = case.samples
    if kind == DTYPE:
        samples = tuple(
            replace(sample, arrays={name: _converted(array) for name, array in sample.arrays.items()})
            for sample in samples
        )
    return replace(case, program=made, samples=samples)


def _converted(array: Array) -> Array:
    """Convert an array like the function `dtype` in the text of the twin."""
    name = _OTHER.get(array.dtype.name)
    if name is None:
        return array
    new = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    to_integers = array.dtype.kind not in "iu" and new.kind in "iu"
    made: Array = np.round(array.astype(np.float64) * _STEP).astype(new) if to_integers else array.astype(new)
    return made
