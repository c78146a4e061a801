"""The worker task that computes a reference: the program's own result, the float64 result, and their rounding noise.

Runs in a worker of the program's framework. For each input sample it writes `native` (the program's own dtypes) and
`exact` (float64). The rounding noise is asked of the shadow, later and only if needed. For frameworks without a shadow
`spread` is written instead: how far the result moves when each input moves by one rounding, and how far
steps move it that rounding may decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import numpy as np

from driftline.core.case_files import CaseFiles
from driftline.core.errors import DriftlineError
from driftline.core.execution import Failure, is_time
from driftline.core.plugins import load_plugins
from driftline.core.registry import import_string
from driftline.core.task import Context, Task
from driftline.core.tensors import Array, Arrays, is_float, load_tensors, save_tensors
from driftline.core.text import first_line
from driftline.oracle.arithmetic import IEEE
from driftline.oracle.compare import STEPS
from driftline.oracle.references.base import (
    ExactRun,
    NoExactReference,
    ReferenceRun,
    RefusingRun,
    SteppedRun,
    StoredRun,
)
from driftline.oracle.shadow.player import Shadow
from driftline.oracle.shadow.task import FRONT_ENDS
from driftline.programs.opened import OpenedProgram, ProgramChanged

# Keyed by witness: the framework itself, or another one that can run its programs.
REFERENCES = {
    "torch": "driftline.oracle.references.torch_reference:TorchReference",
    "onnx": "driftline.oracle.references.onnx_reference:OnnxEvaluatorReference",
    "onnx-player": "driftline.oracle.references.onnx_player_reference:PlayedOnnx",
    "onnx-player-alone": "driftline.oracle.references.onnx_player_reference:PlayedAlone",
    "jax": "driftline.oracle.references.jax_reference:JaxReference",
    "tensorflow": "driftline.oracle.references.tensorflow_reference:TensorFlowReference",
}
PERTURBED_RUNS = 4
STORED_RUNS = 6
# Inputs beyond TAME times the root of the largest number have products whose sums may overflow, depending on the order.
TRIED_ALONE = 4  # overflowed elements that are tested
TAME = 2.0**-10
WIDE_RANGE = 1e30  # types with less range are summed in wider ones

Run = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class ReferenceRequest:
    """A request for the reference results of a program, computed by the framework named `witness`. With `exact`, the
    float64 results are computed too."""

    case: CaseFiles
    witness: str
    exact: bool = True
    storages: tuple[str, ...] = ()  # formats with fewer bits (`oracle/storage.py`) to measure


@dataclass(frozen=True)
class SampleFiles:
    """The reference results for one sample, as files, or the error that the program raises."""

    native: Path | None = None
    exact: Path | None = None
    spread: Path | None = None
    note: str = ""
    seconds: float = 0.0  # processor time of the native run, which does not depend on other load
    shadow: bool = False  # a shadow can be asked for the rounding noise
    draws: bool = False  # an operation of the program drew random numbers
    failure: Failure | None = None
    refusal: Failure | None = None  # the framework's own error although the correct result is known
    stored: Mapping[str, Path] = field(default_factory=dict)  # storage format -> how far it moves the result
    around: tuple[str, ...] = ()  # operators whose own kernels are the reference


@dataclass(frozen=True)
class ReferenceAnswer:
    """The answer to a `ReferenceRequest`: the results for each sample, or the problem that prevented them."""

    samples: tuple[SampleFiles, ...] = ()
    random: bool = False  # the program draws random numbers, or its result depends on the seed
    problem: str = ""  # why there is no reference


def _fits(asked: ReferenceRequest, answer: ReferenceAnswer) -> bool:
    complete = bool(answer.problem) or len(answer.samples) == len(asked.case.inputs)
    return complete and all(is_time(found.seconds) and (found.native or found.failure) for found in answer.samples)


COMPUTE = Task("driftline.oracle.reference:compute", ReferenceRequest, ReferenceAnswer, _fits)


@COMPUTE.serve
def compute(request: ReferenceRequest, context: Context) -> ReferenceAnswer:
    """Compute the reference for all samples of a case."""
    case, witness = request.case, request.witness
    load_plugins(case.plugins)
    samples = case.samples()
    program = OpenedProgram.of(case, samples[0])
    try:
        reference: ReferenceRun = import_string(REFERENCES[witness])(program)
    except ProgramChanged as error:
        return ReferenceAnswer(problem=str(error))
    except MemoryError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {first_line(str(error))}"
        own_code = program.framework != "onnx"  # which ran before, when the program was inspected
        return ReferenceAnswer(problem=f"loaded a second time, the program raises {told}" if own_code else told)
    try:
        return _answers(program, reference, samples, request)
    except DriftlineError as error:  # outputs that are not numeric
        return ReferenceAnswer(problem=str(error))


def _answers(
    program: OpenedProgram, reference: ReferenceRun, samples: list[Arrays], request: ReferenceRequest
) -> ReferenceAnswer:
    folder = request.case.folder
    if not request.exact:
        return ReferenceAnswer(tuple(_native(reference, arrays, folder, at) for at, arrays in enumerate(samples)))
    answers = [_sample(program, request, reference, arrays, index) for index, arrays in enumerate(samples)]
    random = any(answer.draws for answer in answers)
    if not random and not answers[0].failure:
        try:
            random, warm = _is_random(program, reference, samples[0], folder)
        except (MemoryError, DriftlineError):
            raise
        except Exception as error:
            told = f"{type(error).__name__}: {first_line(str(error), 200)}"
            return ReferenceAnswer(problem=f"called a second time, the program raises {told}")
        # the first call includes one-time preparations
        answers[0] = replace(answers[0], seconds=min(answers[0].seconds, warm))
    return ReferenceAnswer(tuple(answers), random)


def _shadowed(found: SampleFiles, program: OpenedProgram, witness: str, arrays: Arrays, path: Path) -> SampleFiles:
    """Return `found` with the float64 result of the program's shadow. The rounding noise is computed later, if
    needed."""
    shadow: Shadow | None = None
    try:
        shadow = import_string(FRONT_ENDS[witness])(program, arrays, IEEE)
        found = replace(found, exact=_write(path, shadow.reference()), shadow=True)
    except NoExactReference as reason:
        told = first_line(str(reason), 200)
        found = replace(found, note=f"{told}: compared with the unoptimised run alone")
    around = tuple(sorted(name for name in shadow.unruled if "::" in name)) if shadow else ()
    return replace(found, draws=shadow is not None and shadow.draws, around=around)


def _sample(
    program: OpenedProgram, request: ReferenceRequest, reference: ReferenceRun, arrays: Arrays, index: int
) -> SampleFiles:
    witness, folder = request.witness, request.case.folder
    found = _native(reference, arrays, folder, index)
    if found.native is None:
        return found
    place = folder / f"{index}.exact"
    if witness in FRONT_ENDS:
        return _shadowed(found, program, witness, arrays, place)
    exact, spread, note = measure_spread(reference, arrays, load_tensors(found.native))
    return replace(
        found,
        exact=_write(place, exact) if exact is not None else None,
        spread=_write(folder / f"{index}.spread", spread),
        note=note,
        stored={
            name: _write(folder / f"{index}.{name}", moved)
            for name in request.storages
            if (moved := measure_storage(reference, arrays, name)) is not None
        },
    )


def _native(reference: ReferenceRun, arrays: Arrays, folder: Path, index: int) -> SampleFiles:
    """Run the program in its own dtypes and return the file of its result, or the error that it raises."""
    began = time.process_time()
    try:
        native = reference.native(arrays)
    except (MemoryError, DriftlineError):
        raise
    except Exception as error:
        return SampleFiles(failure=Failure.of(error))
    seconds = time.process_time() - began
    refusal = reference.refusal if isinstance(reference, RefusingRun) else None
    return SampleFiles(_write(folder / f"{index}.native", native), seconds=seconds, refusal=refusal)


def measure_spread(reference: ReferenceRun, arrays: Arrays, native: Arrays) -> tuple[Arrays | None, Arrays, str]:
    """Return the float64 result (or `None`), its spread under perturbed inputs, and a note if there is no float64
    result. For frameworks without a shadow."""
    try:
        lifted = {name: _lift(array) for name, array in arrays.items()}
        plain = cast(ExactRun, reference)
        exact = plain.exact(lifted)
    except NoExactReference as reason:
        spread = _spread(reference.native, arrays, arrays, native)
        _mark_overflows(spread, reference.native, arrays, arrays, native)
        return None, spread, str(reason)
    spread = _spread(plain.exact, lifted, arrays, exact)
    _mark_overflows(spread, plain.exact, lifted, arrays, native)
    if isinstance(reference, SteppedRun):
        spread |= _steps(reference, lifted, exact)
    return exact, spread, ""


def _steps(reference: SteppedRun, arrays: Arrays, exact: Arrays) -> Arrays:
    """Return how far the steps that rounding decides move each element of the outputs, also of integers and booleans,
    named with the prefix `STEPS`."""
    steps: Arrays = {}
    try:
        runs = reference.stepped(arrays)
    except Exception:  # a run on another path may fail where the program does not
        return {}
    for name, center in exact.items():
        other = [run[name] for run in runs if run[name].shape == center.shape and center.size]
        if not other or center.dtype.kind not in "biuf":
            continue
        moved = np.max([_moved_by_step(each, center) for each in other], axis=0)
        if moved.any():
            steps[STEPS + name] = moved
    return steps


def _moved_by_step(one: Array, center: Array) -> Array:
    """Return how far a pushed run moves each element; infinite where it becomes or ceases to be finite."""
    with np.errstate(all="ignore"):
        moved = np.abs(one.astype(np.float64) - center.astype(np.float64))
    same = (one == center) | ((one != one) & (center != center))
    return np.where(same, 0.0, np.where(np.isfinite(moved), moved, np.inf))


def measure_storage(reference: ReferenceRun, arrays: Arrays, storage: str) -> Arrays | None:
    """Return how far the float64 result moves when values are kept in fewer bits, or `None` if that cannot be
    computed."""
    if not isinstance(reference, StoredRun):
        return None
    lifted = {name: _lift(array) for name, array in arrays.items()}
    try:
        exact = reference.exact(lifted)
        runs = [reference.stored(lifted, storage, seed) for seed in range(STORED_RUNS)]
    except NoExactReference:
        return None
    widest: Arrays = {}
    for name, value in exact.items():
        if is_float(value.dtype.name):
            widest[name] = np.max([_distance(run[name], value) for run in runs], axis=0)
    return widest


def _distance(one: Array, other: Array) -> Array:
    """Return the elementwise distance; infinite where it is undefined, as between sizes that depend on values."""
    if one.shape != other.shape:
        return np.full(other.shape, np.inf)
    with np.errstate(all="ignore"):
        distance = np.abs(one - other)
    return np.where(np.isfinite(distance), distance, np.inf)


def _write(path: Path, arrays: Arrays) -> Path:
    save_tensors(path, arrays)
    return path


def _lift(array: Array) -> Array:
    if is_float(array.dtype.name):
        return array.astype(np.float64)
    return array.astype(np.complex128) if array.dtype.kind == "c" else array


def _spread(run: Run, arrays: Arrays, originals: Arrays, center: Arrays) -> Arrays:
    """Return the largest movement of each output element over a few runs with inputs moved by one rounding error."""
    spread = {
        n: np.zeros(value.shape) for n, value in center.items() if is_float(value.dtype.name) or value.dtype.kind == "c"
    }
    rng = np.random.default_rng(0)
    for _ in range(PERTURBED_RUNS):
        moved = {name: _perturb(array, originals[name], rng) for name, array in arrays.items()}
        try:
            outputs = run(moved)
        except Exception:  # inputs outside the program's domain say nothing about rounding
            continue
        for name, widest in spread.items():
            other = outputs.get(name)
            if other is None or other.shape != widest.shape:
                continue
            with np.errstate(all="ignore"):
                moved_by = np.abs(_lift(other) - _lift(center[name]))
            np.maximum(widest, np.where(np.isfinite(moved_by), moved_by, np.inf), out=widest, where=~np.isnan(moved_by))
    return spread


def _mark_overflows(spread: Arrays, run: Run, arrays: Arrays, originals: Arrays, native: Arrays) -> None:
    """Set the spread to NaN where the result is not finite but becomes finite with smaller inputs.

    There a partial result overflowed, and the order of the terms decides whether the result is an infinity or NaN.
    Outputs that are computed elementwise are left alone, since they have no such order.
    """
    if all(bool(np.isfinite(native[name]).all()) for name in spread if name in native):
        return
    tamed = {name: _tamed(array, originals[name]) for name, array in arrays.items()}
    if all(tamed[name] is arrays[name] for name in arrays):
        return
    try:
        outputs = run(tamed)
    except Exception:  # as in `_spread`
        return
    for name, widest in spread.items():
        mine, other = native.get(name), outputs.get(name)
        if mine is not None and other is not None and other.shape == widest.shape == mine.shape:
            with np.errstate(all="ignore"):
                overflowed = ~np.isfinite(mine) & np.isfinite(other.astype(mine.dtype)) & np.isfinite(widest)
            if overflowed.any() and not _overflows_by_itself(run, arrays, tamed, name, mine, overflowed):
                widest[overflowed] = np.nan


def _overflows_by_itself(run: Run, arrays: Arrays, tamed: Arrays, name: str, mine: Array, places: Array) -> bool:
    """True if each element of the output depends on one element of each input only. This is tested on a few elements,
    with all other inputs made smaller: a sum would then be finite."""
    if any(array.size != 1 and array.shape != mine.shape for array in arrays.values()):
        return False
    for place in np.argwhere(places)[:TRIED_ALONE]:
        own = np.zeros(mine.shape, dtype=bool)
        own[tuple(place)] = True
        alone = {n: np.where(own, array, tamed[n]) if array.size != 1 else array for n, array in arrays.items()}
        try:
            found = run(alone)[name][tuple(place)]
        except Exception:  # as in `_spread`
            return False
        with np.errstate(all="ignore"):
            if np.isfinite(np.asarray(found).astype(mine.dtype)):
                return False
    return True


def _tamed(array: Array, original: Array) -> Array:
    """Return the array with its largest finite numbers reduced, or the array itself if it has no large numbers."""
    if not is_float(original.dtype.name):
        return array
    import ml_dtypes

    largest = float(ml_dtypes.finfo(original.dtype).max)
    limit = TAME * largest**0.5
    beyond = np.isfinite(array) & (np.abs(array) > limit)
    if largest < WIDE_RANGE or not beyond.any():
        return array
    return np.where(beyond, np.copysign(limit, array), array).astype(array.dtype)


def _perturb(array: Array, original: Array, rng: np.random.Generator) -> Array:
    if not is_float(original.dtype.name):
        return array
    import ml_dtypes

    unit = float(ml_dtypes.finfo(original.dtype).eps) / 2
    if array.dtype == original.dtype:
        unit *= 2  # half a unit would be rounded away: move to the neighbouring number
    signs = rng.choice(np.array([-1.0, 1.0]), size=array.shape)
    with np.errstate(all="ignore"):
        return (array.astype(np.float64) * (1 + unit * signs)).astype(array.dtype)


def _is_random(program: OpenedProgram, reference: ReferenceRun, arrays: Arrays, folder: Path) -> tuple[bool, float]:
    """Return whether the result depends on the seed, and the processor time of a second run in seconds. A random
    program can only be compared with targets that share its generator."""
    first = load_tensors(folder / "0.native")
    program.drawn_otherwise = 1
    try:
        began = time.process_time()
        second = reference.native(arrays)
        seconds = time.process_time() - began
    finally:
        program.drawn_otherwise = 0
    return any(first[name].tobytes() != second[name].tobytes() for name in first if name in second), seconds
