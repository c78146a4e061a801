"""Compares a file with the program from which it was made: matches the inputs and the results of the two.

Inputs are matched by name, else by position. Results are matched in the same way after the run, since the results of a
torch program have names only then. A result stored in another float type is compared as a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from driftline.checking.open import LoadedProgram
from driftline.core.case import Case, Deployed, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution
from driftline.core.tensors import ANY_SIZE, Array, TensorSpec, is_float, numpy_dtype
from driftline.oracle.judge import Reference


def deploy(file: LoadedProgram, reference: LoadedProgram) -> LoadedProgram:
    """Return the reference program with the file to run in its place. Raises `DriftlineError` if the two do not fit."""
    pairs = _matched_inputs(file, reference)
    _require_common_outputs(file, reference)
    example = reference.example
    if not example and file.example:
        wanted = {spec.name: spec.dtype for spec in reference.program.inputs}
        example = {ours: file.example[its].astype(numpy_dtype(wanted[ours])) for ours, its in pairs.items()}
    notes = (*reference.notes, *file.notes, *_left_out(file, reference))
    return replace(
        reference,
        example=example,
        deployed=Deployed(file.program, pairs),
        notes=notes,
        without=file.without,
        judgeable=file.judgeable,
    )


def _matched_inputs(file: LoadedProgram, reference: LoadedProgram) -> dict[str, str]:
    ours, its = reference.program.inputs, file.program.inputs
    if len(ours) != len(its):
        raise DriftlineError(
            f"{file.program.name} takes {_count(its)}, the reference {reference.program.name} {_count(ours)}:"
            " they are not the same model. Export both with the same inputs."
        )
    named = {spec.name: spec for spec in its}
    by_name = all(spec.name in named for spec in ours)
    pairs = {spec.name: named[spec.name] if by_name else its[at] for at, spec in enumerate(ours)}
    for spec in ours:
        other = pairs[spec.name]
        if not (_alike(spec.dtype, other.dtype) and _overlap(spec.shape, other.shape)):
            how = "has the same name" if by_name else "stands in the same place"
            raise DriftlineError(
                f"Input {spec} of the reference {reference.program.name} does not fit {other} of {file.program.name},"
                f" which {how}. Export both with the same inputs, or give them the same names."
            )
    return {name: spec.name for name, spec in pairs.items()}


def _count(specs: Sequence[TensorSpec]) -> str:
    names = ", ".join(spec.name for spec in specs)
    return f"{len(specs)} input{'s' * (len(specs) != 1)} ({names})" if specs else "no inputs"


def _alike(one: str, other: str) -> bool:
    """True if two dtypes are of the same class; their width may differ."""
    return one == other or (is_float(one) and is_float(other)) or ("int" in one and "int" in other)


def _overlap(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(a == b or ANY_SIZE in (a, b) for a, b in zip(one, other, strict=True))


def _require_common_outputs(file: LoadedProgram, reference: LoadedProgram) -> None:
    """Raise DriftlineError if the two can have no common outputs, as far as known before a run."""
    ours, its = reference.program.outputs, file.program.outputs
    if ours and its and not set(ours) & set(its) and len(ours) != len(its):
        raise DriftlineError(
            f"{file.program.name} returns {', '.join(its)}, the reference {reference.program.name} {', '.join(ours)}:"
            " no name is the same, nor is their number, so nothing can be compared. Name the outputs alike."
        )


def _left_out(file: LoadedProgram, reference: LoadedProgram) -> tuple[str, ...]:
    """Return a note about outputs that only one of the two returns, as far as known before a run."""
    ours, its = reference.program.outputs, file.program.outputs
    alone = [name for name in dict.fromkeys((*ours, *its)) if (name in ours) != (name in its)]
    if not set(ours) & set(its) or not alone:
        return ()
    return (f"Not compared, since only one of the two models returns it: {', '.join(alone)}.",)


def fitting(deployed: Deployed, samples: Sequence[Inputs]) -> tuple[Inputs, ...]:
    """Return the inputs rounded to the dtypes of the file, so that rounding the inputs is not judged."""
    dtypes = {spec.name: numpy_dtype(spec.dtype) for spec in deployed.program.inputs}

    def fit(name: str, array: Array) -> Array:
        return array.astype(dtypes[deployed.inputs[name]]).astype(array.dtype) if name in deployed.inputs else array

    return tuple(Inputs({n: fit(n, a) for n, a in sample.arrays.items()}, sample.origin) for sample in samples)


def as_run(case: Case, deployed: Deployed) -> Case:
    """Return the case that targets are given: the file, with its own input names and dtypes."""
    dtypes = {spec.name: numpy_dtype(spec.dtype) for spec in deployed.program.inputs}
    names = deployed.inputs
    samples = tuple(
        Inputs(
            {
                names[name]: array.astype(dtypes[names[name]], copy=False)
                for name, array in sample.arrays.items()
                if name in names
            },
            sample.origin,
        )
        for sample in case.samples
    )
    return replace(case, program=deployed.program, samples=samples, deployed=None)


def compared(deployed: Deployed, execution: Execution, reference: Reference) -> tuple[Execution, Reference]:
    """Return the execution and the reference with the results that both have, under the reference's names."""
    if not execution.outputs or len(execution.outputs) != len(reference.samples):
        return execution, reference
    outputs, samples = [], []
    for got, sample in zip(execution.outputs, reference.samples, strict=True):
        expected = {name: array for name, array in sample.native.items() if not name.startswith("mutated:")}
        pairs = _matched_outputs(list(expected), list(got))
        if expected and pairs is None:
            told = (
                f"{deployed.program.name} returns {', '.join(got) or 'nothing'}, the reference {', '.join(expected)}:"
                " no name is the same, nor is their number, so nothing can be compared"
            )
            return replace(execution, problem=told), reference
        pairs = pairs or {}
        outputs.append({name: _as_stored(got[its], expected[name]) for name, its in pairs.items()})
        samples.append(replace(sample, native={name: sample.native[name] for name in pairs}))
    return replace(execution, outputs=tuple(outputs)), replace(reference, samples=tuple(samples))


def _matched_outputs(ours: Sequence[str], its: Sequence[str]) -> dict[str, str] | None:
    shared = {name: name for name in ours if name in its}
    if shared:
        return shared
    return dict(zip(ours, its, strict=True)) if len(ours) == len(its) else None


def _as_stored(got: Array, expected: Array) -> Array:
    """Convert a float result to the float type of the reference: another float type alone is no failure."""
    if got.dtype != expected.dtype and is_float(got.dtype.name) and is_float(expected.dtype.name):
        with np.errstate(over="ignore"):
            return got.astype(expected.dtype)
    return got
