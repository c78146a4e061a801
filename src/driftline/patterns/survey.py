"""Give many models to one compiler's audit task: made in one worker, audited in another.

This file has the parent's and the worker's side. A model that kills its worker is reported as a crash, and the others
continue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from driftline.checking.batch_requests import PreparedProgram
from driftline.core.handover import records_of
from driftline.core.program import Program
from driftline.core.task import Context, Task
from driftline.core.tensors import Arrays
from driftline.core.wire import encode
from driftline.execute.pool import Pool, WorkerKind
from driftline.execute.requests import RESULTS
from driftline.execute.shelf import load_samples

# -- what is asked and answered ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SurveyModel:
    """One model of a survey."""

    number: int
    program: Program
    tensors: str  # the place of its input samples
    native: str  # the file with the reference results


@dataclass(frozen=True)
class Models:
    """The models that an audit task gets. Answers are lines of the file `RESULTS` in the folder."""

    models: tuple[SurveyModel, ...]
    folder: Path


@dataclass(frozen=True)
class SurveySeen:
    """What a compiler did with one model: the names of rules that matched, that fired, and that changed the results,
    with the change."""

    matched: tuple[str, ...] = ()
    fired: tuple[str, ...] = ()
    differing: Mapping[str, str] = field(default_factory=dict)
    failed: str = ""  # the compiler does not take the model
    crash: str = ""  # it ended its worker


@dataclass(frozen=True)
class SeenLine:
    """One line of the results file."""

    number: int
    seen: SurveySeen


@dataclass(frozen=True)
class Surveyed:
    """The answer of a task that has surveyed all models; the results are in the folder."""


# -- in the worker -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SurveyJob:
    """One model in the worker, with access to its file and samples."""

    model: SurveyModel
    folder: Path

    def data(self) -> bytes:
        return self.model.program.path.read_bytes()

    def samples(self) -> list[Arrays]:
        return load_samples(self.model.tensors)

    def expected(self) -> list[Arrays]:
        """Return the reference results of the samples."""
        return load_samples(self.model.native)

    def answer(self, seen: SurveySeen) -> None:
        """Write the answer to the file at once, since the next model may end this process."""
        with open(self.folder / RESULTS, "a") as results:
            results.write(json.dumps(encode(SeenLine, SeenLine(self.model.number, seen))) + "\n")


def each_job(models: Models, context: Context) -> Iterator[SurveyJob]:
    """Yield the models one by one, and report each to the parent before it is run."""
    for model in models.models:
        context.lap()
        context.enter(str(model.number))
        yield SurveyJob(model, models.folder)


def difference(one: Sequence[Arrays], other: Sequence[Arrays]) -> str:
    """Return the difference between two lists of results in a few words; an empty string if they are bit-identical."""
    largest = 0.0
    for left, right in zip(one, other, strict=True):
        if left.keys() != right.keys():
            return "other results"
        for name, array in left.items():
            twin = right[name]
            if (array.dtype, array.shape) != (twin.dtype, twin.shape):
                return f"{name} is {array.dtype}{list(array.shape)}, not {twin.dtype}{list(twin.shape)}"
            if array.tobytes() == twin.tobytes():
                continue
            largest = max(largest, _distance(array, twin))
    return f"differs by {largest:.3g}" if largest else ""


def far_apart(one: Sequence[Arrays], other: Sequence[Arrays], share: float = 1e-5) -> bool:
    """True if the results differ by more than rounding usually causes. A rough test that does not decide whether they
    are wrong."""
    for left, right in zip(one, other, strict=False):
        for name, twin in right.items():
            array = left.get(name)
            if (
                array is None
                or (array.dtype, array.shape) != (twin.dtype, twin.shape)
                or _distance(array, twin) > share
            ):
                return True
    return False


def _distance(one: Any, other: Any) -> float:
    """Return the largest difference relative to the largest number; infinity if only one side is finite."""
    if one.dtype.kind not in "fciub" and one.dtype.name != "bfloat16":
        return float("inf")
    with np.errstate(all="ignore"):
        left, right = (value.astype(np.complex128 if value.dtype.kind == "c" else np.float64) for value in (one, other))
        unequal = (left != right) & ~(np.isnan(left) & np.isnan(right))
        if not unequal.any():
            return 0.0
        if not (np.isfinite(left) == np.isfinite(right)).all() or not np.isfinite(left[unequal]).all():
            return float("inf")
        return float((np.abs(left - right)[unequal]).max() / max(np.abs(left[np.isfinite(left)]).max(), 1e-30))


# -- in the parent -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """A model that was made, as described by the task `prepare`."""

    arm: str
    number: int
    answer: PreparedProgram = field(repr=False)

    @property
    def base(self) -> str:
        return self.arm.partition("~")[0]

    @property
    def change(self) -> str:
        """The change that was made to the base; an empty string for the base itself."""
        return self.arm.partition("~")[2]


Asked = TypeVar("Asked")


def survey(
    pool: Pool,
    worker: WorkerKind,
    task: Task[Asked, Surveyed],
    request: Callable[[Models], Asked],
    models: Sequence[Made],
    *,
    timeout: float = 60.0,
) -> list[SurveySeen]:
    """Run an audit task on the models and return one answer for each, in order, including those that ended their
    worker."""
    answers: dict[int, SurveySeen] = {}
    waiting = {
        number: SurveyModel(number, made.answer.program, made.answer.tensors, made.answer.native)
        for number, made in enumerate(models)
    }
    while waiting:
        folder = pool.workspace.job_folder()
        report = pool.run(worker, task, request(Models(tuple(waiting.values()), folder)), timeout=timeout)
        answers |= _read(folder / RESULTS)
        if report.answer is None:
            culprit = int(report.stage) if report.stage else next(iter(waiting))
            answers[culprit] = SurveySeen(crash=f"{report.ending}: {report.detail}")
        waiting = {number: model for number, model in waiting.items() if number not in answers}
        if report.answer is not None and waiting:
            answers |= dict.fromkeys(waiting, SurveySeen(crash="no answer"))
            break
    return [answers[number] for number in range(len(models))]


def _read(path: Path) -> dict[int, SurveySeen]:
    found = {}
    for line in records_of(path, SeenLine):
        found[line.number] = line.seen
    return found
