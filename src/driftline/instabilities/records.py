"""The results of a run, stored as one JSON file for each model, rewritten after each framework so that a killed run can
resume."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError, InternalError
from driftline.core.output_place import make_folder
from driftline.core.private import write_private
from driftline.core.text import parse_json
from driftline.core.wire import decode
from driftline.instabilities.counting import NOTHING_COUNTED, Counts

SCHEMA = 1
MODELS = "models"
INPUTS = "inputs"
SETTINGS = "run.json"
ERRORS = ("error", "crash", "timeout", "oom")


@dataclass(frozen=True)
class InputRow:
    """The result of one framework on one input. `outcome` is ok, rejected, error, crash, timeout or oom; `verdict` is
    the oracle's."""

    input: int
    outcome: str
    counts: Counts = NOTHING_COUNTED
    verdict: str = ""
    kind: str = ""
    reason: str = ""


@dataclass(frozen=True)
class RuntimeRecord:
    """The results of one framework on all inputs of a model. `bugs` are the IDs of its findings in the store."""

    framework: str
    target: str
    version: str
    rows: tuple[InputRow, ...]
    bugs: tuple[str, ...] = ()

    def total(self, name: str) -> int:
        """Return the sum of a field of `Counts` over all inputs."""
        return sum(getattr(row.counts, name) for row in self.rows)

    @property
    def errors(self) -> int:
        return sum(row.outcome in ERRORS for row in self.rows)

    @property
    def rejected(self) -> int:
        return sum(row.outcome == "rejected" for row in self.rows)

    @property
    def worst_error(self) -> float:
        return max((row.counts.worst_error for row in self.rows), default=0.0)

    @property
    def verdict(self) -> str:
        """The most serious verdict over all inputs."""
        found = {row.verdict for row in self.rows}
        return next((one for one in _GRAVEST if one in found), next(iter(found), ""))


def counted_words(rows: Iterable[Sequence[InputRow]]) -> str:
    """Return the totals over several models in a few words."""
    every = [row for one in rows for row in one]
    counts = {name: sum(getattr(row.counts, name) for row in every) for name in ("nan", "inf", "disagreements")}
    told = [f"{counts['nan']} NaN", f"{counts['inf']} Inf", f"{counts['disagreements']} far from float64"]
    told += [f"{number} {word}" for word in (*ERRORS, "rejected") if (number := sum(r.outcome == word for r in every))]
    return ", ".join(told)


_GRAVEST = ("fail", "reduced-precision", "pass", "inconclusive", "rejected", "invalid")


@dataclass(frozen=True)
class Conflict:
    """An input on which frameworks disagree about an element: NaN or infinite on one, finite on another."""

    input: int
    elements: int
    nan: tuple[str, ...]  # frameworks with a NaN where another has a number
    inf: tuple[str, ...]
    finite: tuple[str, ...]


@dataclass(frozen=True)
class ModelRecord:
    """All measurements of one model. `inputs` says where each input came from."""

    model: str
    schema: int = SCHEMA
    expression: str = ""
    operators: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    runtimes: tuple[RuntimeRecord, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    problem: str = ""  # why nothing could be measured

    def with_runtime(self, made: RuntimeRecord) -> ModelRecord:
        """Return the record with `made` added, replacing the earlier results of its framework, and conflicts
        recomputed."""
        others = [one for one in self.runtimes if one.framework != made.framework]
        runtimes = (*others, made)
        return replace(self, runtimes=runtimes, conflicts=tuple(_conflicts(runtimes)))


def _conflicts(runtimes: Sequence[RuntimeRecord]) -> Iterator[Conflict]:
    """Yield the inputs on which the class of an element (finite, NaN, +Inf or -Inf) differs between frameworks."""
    by_input: dict[int, dict[str, str]] = {}
    for runtime in runtimes:
        for row in runtime.rows:
            if row.outcome == "ok" and row.counts.classes:
                by_input.setdefault(row.input, {})[runtime.framework] = row.counts.classes
    for number, classes in sorted(by_input.items()):
        size = Counter(map(len, classes.values())).most_common(1)[0][0]
        classes = {name: text for name, text in classes.items() if len(text) == size}
        places = [at for at, letters in enumerate(zip(*classes.values(), strict=True)) if len(set(letters)) > 1]
        if not places:
            continue
        seen = {name: {text[at] for at in places} for name, text in classes.items()}
        yield Conflict(
            number,
            len(places),
            nan=tuple(name for name, letters in seen.items() if "n" in letters),
            inf=tuple(name for name, letters in seen.items() if letters & {"+", "-"}),
            finite=tuple(name for name, letters in seen.items() if "." in letters),
        )


class RunFolder:
    """Reads and writes the folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, settings: dict[str, Any], about: dict[str, Any]) -> None:
        """Create the folder, or resume the run in it. Raises an error if that run has other settings. `about` is stored
        for readers, and is not compared."""
        place = self.path / SETTINGS
        if place.is_file():
            before = _read_json(place)
            changed = [key for key, value in settings.items() if before.get(key) != value]
            if changed:
                raise DriftlineError(
                    f"--out {self.path} holds a run with another {' and '.join(changed)}; name another folder, or"
                    " remove this one."
                )
            return
        if self.path.is_dir() and any(self.path.iterdir()):
            raise DriftlineError(f"--out {self.path}: the folder is not empty, and not a run; name another one.")
        make_folder(self.path)
        for part in (MODELS, INPUTS):
            make_folder(self.path / part)
        write_private(place, [json.dumps({"schema": SCHEMA, **settings, **about}, indent=1).encode()])

    @property
    def settings(self) -> dict[str, Any]:
        place = self.path / SETTINGS
        if not place.is_file():
            raise DriftlineError(f"{self.path} is not a run of `driftline instabilities`: it has no {SETTINGS}.")
        return _read_json(place)

    def inputs(self, model: str) -> Path:
        return self.path / INPUTS / model

    def read(self, model: str) -> ModelRecord | None:
        """Return the stored record of a model, or None."""
        place = self._place(model)
        return _read_record(place) if place.is_file() else None

    def write(self, record: ModelRecord) -> None:
        text = json.dumps(asdict(record), indent=1)  # whole: others read it too
        write_private(self._place(record.model), [text.encode()])

    def records(self) -> list[ModelRecord]:
        return [_read_record(path) for path in sorted((self.path / MODELS).glob("*.json"))]

    def _place(self, model: str) -> Path:
        return self.path / MODELS / f"{model}.json"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        body = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DriftlineError(f"{path} cannot be read as JSON ({error}). Remove the run and start it again.") from error
    if not isinstance(body, dict):
        raise DriftlineError(f"{path} is not what a run of `driftline instabilities` writes.")
    return body


def _read_record(path: Path) -> ModelRecord:
    try:
        return decode(ModelRecord, _read_json(path))
    except InternalError as error:
        raise DriftlineError(
            f"{path} is not what a run of `driftline instabilities` writes ({error}). Remove it: the model is then"
            " measured again."
        ) from error
