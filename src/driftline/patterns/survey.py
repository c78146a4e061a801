"""Many models given to one compiler's audit task: made in one worker, audited in another, crash by crash.

Parent and worker side of the same thing. A model that kills its worker is noted as such, and the others go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.tensors import Arrays
from driftline.execute.pool import Pool, WorkerKind
from driftline.execute.tasks import RESULTS, load_samples

# -- in the worker -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """One model of many, with its input samples."""

    number: int
    payload: Mapping[str, Any]
    folder: Path

    def data(self) -> bytes:
        return Path(self.payload["path"]).read_bytes()

    def samples(self) -> list[Arrays]:
        return load_samples(self.payload["tensors"])

    def expected(self) -> list[Arrays]:
        """What the reference makes of the samples."""
        return load_samples(self.payload["native"])

    def answer(self, value: Mapping[str, Any]) -> None:
        """Written down at once: the next model may end this process."""
        with open(self.folder / RESULTS, "a") as results:
            results.write(json.dumps({**value, "number": self.number}) + "\n")


def each_job(payload: Mapping[str, Any], context: Any) -> Iterator[Job]:
    folder = Path(payload["folder"])
    for item in payload["jobs"]:
        context.lap()
        context.enter(str(item["number"]))
        yield Job(item["number"], item, folder)


def difference(one: Sequence[Arrays], other: Sequence[Arrays]) -> str:
    """What differs between two lists of results, in a few words; nothing when they are equal bit by bit."""
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
    """Is the difference more than rounding usually makes? A first look: whether it is wrong is not decided here."""
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
    """The largest difference in proportion to the size of the numbers; infinite where one side is not finite."""
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
    """A model that was made, as the task `prepare` describes it."""

    arm: str
    number: int
    answer: Mapping[str, Any] = field(repr=False)

    @property
    def base(self) -> str:
        return self.arm.partition("~")[0]

    @property
    def change(self) -> str:
        """What was changed in the base; nothing in the base itself."""
        return self.arm.partition("~")[2]


def survey(
    pool: Pool,
    worker: WorkerKind,
    task: str,
    payload: Mapping[str, Any],
    models: Sequence[Made],
    *,
    timeout: float = 60.0,
) -> list[dict[str, Any]]:
    """One answer for each model, in their order; `{"crash": ...}` for one that ended its worker."""
    answers: dict[int, dict[str, Any]] = {}
    waiting = {
        number: {"number": number, **{key: made.answer[key] for key in ("path", "tensors", "native")}}
        for number, made in enumerate(models)
    }
    while waiting:
        folder = pool.workspace.job_folder()
        report = pool.run(
            worker, task, {**payload, "jobs": list(waiting.values()), "folder": str(folder)}, timeout=timeout
        )
        answers |= _read(folder / RESULTS)
        if report.ending != "done":
            culprit = int(report.stage) if report.stage else next(iter(waiting))
            answers[culprit] = {"crash": f"{report.ending}: {report.detail}"}
        waiting = {number: job for number, job in waiting.items() if number not in answers}
        if report.ending == "done" and waiting:
            for number in waiting:
                answers[number] = {"crash": "no answer"}
            break
    return [answers[number] for number in range(len(models))]


def _read(path: Path) -> dict[int, dict[str, Any]]:
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            answer = json.loads(line)
        except json.JSONDecodeError:  # the process died while it wrote this one
            continue
        found[int(answer["number"])] = answer
    return found
