"""The task that computes what a program means: its own result, the float64 result, and how far rounding moves it.

Runs in a worker of the program's framework. For each input sample it writes three files: `native` (the program's own
dtypes), `exact` (float64) and `spread`: how far the exact result moves, elementwise, when rounding errors are put into
the run. The spread is what tells an ill-conditioned result from a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.execution import Failure
from driftline.core.plugins import load_plugins
from driftline.core.registry import import_string
from driftline.core.tensors import Array, Arrays, is_float, load_tensors, save_tensors
from driftline.oracle.references.base import NoExactReference, ReferenceRun
from driftline.programs.opened import OpenedProgram, ProgramChanged

REFERENCES = {
    "torch": "driftline.oracle.references.torch_reference:TorchReference",
    "onnx": "driftline.oracle.references.onnx_reference:OnnxReference",
    "jax": "driftline.oracle.references.jax_reference:JaxReference",
    "tensorflow": "driftline.oracle.references.tensorflow_reference:TensorFlowReference",
}
PERTURBED_RUNS = 4

Run = Callable[[Arrays], Arrays]


def compute(payload: dict[str, Any], context: object) -> dict[str, Any]:
    load_plugins(payload["plugins"])
    samples = [load_tensors(path) for path in payload["inputs"]]
    program = OpenedProgram.from_payload(payload, samples[0], lambda stage: None)
    try:
        reference: ReferenceRun = import_string(REFERENCES[program.framework])(program)
    except ProgramChanged as error:
        return {"problem": str(error)}
    folder = Path(payload["folder"])
    answers = [_sample(reference, arrays, folder, index) for index, arrays in enumerate(samples)]
    raised = "failure" in answers[0]
    return {"samples": answers, "random": not raised and _is_random(program, reference, samples[0], folder)}


def _sample(reference: ReferenceRun, arrays: Arrays, folder: Path, index: int) -> dict[str, Any]:
    try:
        native = reference.native(arrays)
    except MemoryError:
        raise
    except Exception as error:
        return {"failure": Failure.of(error).to_json()}
    answer: dict[str, Any] = {"native": _write(folder / f"{index}.native", native), "note": ""}
    try:
        lifted = {name: _lift(array) for name, array in arrays.items()}
        exact = reference.exact(lifted)
        run, center = reference.exact, exact
        answer["exact"] = _write(folder / f"{index}.exact", exact)
    except NoExactReference as reason:
        answer["note"] = str(reason)
        lifted, run, center = arrays, reference.native, native
    answer["spread"] = _write(folder / f"{index}.spread", _spread(_disturbed(reference, run, lifted, arrays), center))
    return answer


def _write(path: Path, arrays: Arrays) -> str:
    save_tensors(path, arrays)
    return str(path)


def _lift(array: Array) -> Array:
    if is_float(array.dtype.name):
        return array.astype(np.float64)
    return array.astype(np.complex128) if array.dtype.kind == "c" else array


def _disturbed(reference: ReferenceRun, run: Run, lifted: Arrays, originals: Arrays) -> Iterator[Callable[[], Arrays]]:
    """Runs that differ from the exact one by rounding alone: in every operation if possible, else in the inputs."""
    noisy = getattr(reference, "noisy", None) if run == reference.exact else None
    rng = np.random.default_rng(0)
    for seed in range(PERTURBED_RUNS):
        if noisy:
            yield partial(noisy, lifted, seed)
        else:
            yield partial(run, {name: _perturb(array, originals[name], rng) for name, array in lifted.items()})


def _spread(runs: Iterable[Callable[[], Arrays]], center: Arrays) -> Arrays:
    """The largest movement of each output element over some disturbed runs."""
    spread = {
        n: np.zeros(value.shape) for n, value in center.items() if is_float(value.dtype.name) or value.dtype.kind == "c"
    }
    for run in runs:
        try:
            outputs = run()
        except Exception:  # a neighbour outside the program's domain tells nothing about rounding
            continue
        for name, widest in spread.items():
            other = outputs.get(name)
            if other is None or other.shape != widest.shape:
                continue
            with np.errstate(all="ignore"):
                moved_by = np.abs(_lift(other) - _lift(center[name]))
            np.maximum(widest, np.where(np.isfinite(moved_by), moved_by, np.inf), out=widest, where=~np.isnan(moved_by))
    return spread


def _perturb(array: Array, original: Array, rng: np.random.Generator) -> Array:
    if not is_float(original.dtype.name):
        return array
    import ml_dtypes

    unit = float(ml_dtypes.finfo(original.dtype).eps) / 2
    if array.dtype == original.dtype:
        unit *= 2  # no room below the grid: move to the neighbouring number
    signs = rng.choice(np.array([-1.0, 1.0]), size=array.shape)
    with np.errstate(all="ignore"):
        return (array.astype(np.float64) * (1 + unit * signs)).astype(array.dtype)


def _is_random(program: OpenedProgram, reference: ReferenceRun, arrays: Arrays, folder: Path) -> bool:
    """Does the result depend on the seed? Then only targets that share the generator can be compared."""
    first = load_tensors(folder / "0.native")
    seed = program.seed
    program.seed = seed + 1
    try:
        second = reference.native(arrays)
    finally:
        program.seed = seed
    return any(first[name].tobytes() != second[name].tobytes() for name in first if name in second)
