"""The results of a run of the suite: one row for each model on each target, as stored in `bench.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.text import to_json
from driftline.core.wire import WireError, decode
from driftline.measure.estimate import Estimate, noise_floor

SCHEMA = 1
FILE, PAGE = "bench.json", "bench.html"


@dataclass(frozen=True)
class Clocked:
    """The seconds of one call in each round, by both clocks."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    def by(self, clock: str) -> tuple[float, ...]:
        return self.cpu if clock == "cpu" else self.wall


@dataclass(frozen=True)
class BenchRow:
    """The result for one model on one target. Values that could not be measured are None, and `problem` says why."""

    model: str
    target: str
    version: str = ""
    outcome: str = "OK"  # of compiling and timing; UNAVAILABLE: the backend is not here
    stage: str = "RUN"
    problem: str = ""
    converter: str = ""
    convert_seconds: float | None = None  # None if nothing was converted, or an earlier result was reused
    compile_seconds: float | None = None  # to the first result, less one ordinary call
    compile_cpu: float | None = None  # the same in CPU time, which a busy machine changes less
    wall: Estimate | None = None  # seconds of a call
    cpu: Estimate | None = None
    clock: str = "cpu"  # the clock of the speed-up; on a GPU it is `wall`
    speedup: Estimate | None = None  # against eager on the same device; of eager, against itself: the noise
    conclusion: str = ""  # faster, slower, or `within noise`
    compile_peak: int | None = None  # bytes beyond the empty process, or on the GPU
    run_peak: int | None = None
    graphs: int | None = None
    breaks: tuple[str, ...] = ()
    violations: int | None = None
    verdict: str = ""  # of the oracle; empty if it was not run
    reason: str = ""
    rounds: Clocked | None = None
    eager_rounds: Clocked | None = None  # of eager, in the same rounds


@dataclass(frozen=True)
class BenchModel:
    """A model of a run, with its input and problems."""

    name: str
    program: str  # its name in the corpus
    words: str
    weights: int = 0  # bytes
    problem: str = ""  # why the model could not be measured
    judged_on: str = ""  # the input of the verdicts, if it is smaller than the timed one


@dataclass(frozen=True)
class BenchRun:
    """The results of a whole run."""

    made: str
    driftline: str
    machine: str
    size: str
    dtype: str
    repeat: int
    seconds: float
    seed: int
    targets: tuple[str, ...]
    models: tuple[BenchModel, ...] = ()
    rows: tuple[BenchRow, ...] = ()
    complete: bool = False
    schema: int = SCHEMA

    def rows_of(self, model: str) -> list[BenchRow]:
        return [row for row in self.rows if row.model == model]

    def noise_of(self, row: BenchRow) -> float:
        """Return the factor up to which nothing is concluded about this row: eager against itself on the same
        device.
        """
        device = Target.parse(row.target).device
        for other in self.rows_of(row.model):
            target = Target.parse(other.target)
            if target.backend == "eager" and target.device == device and other.speedup:
                return noise_floor(other.speedup)
        return 1.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def write(self, folder: Path) -> Path:
        path = folder / FILE
        part = path.with_name(f".{FILE}.part")
        part.write_text(to_json(self.to_json(), indent=1) + "\n")
        part.replace(path)
        return path


def read_run(path: Path) -> BenchRun:
    """Read a run from its folder or file. Raise `DriftlineError` if it is not one."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        what = f"the folder has no {FILE}" if path.is_dir() else "there is no such file or folder"
        raise DriftlineError(f"{path}: {what}; name what `driftline bench --out DIR` wrote.")
    try:
        value = json.loads(file.read_text())
        if not isinstance(value, dict) or "rows" not in value:
            raise ValueError("it has no rows")
        if value.get("schema") != SCHEMA:
            raise DriftlineError(f"{file} was written by another release of Driftline (schema {value.get('schema')}).")
        return decode(BenchRun, value)
    except (ValueError, OSError, RecursionError, WireError) as error:
        raise DriftlineError(f"{file} is not a run of `driftline bench`: {str(error).splitlines()[0]}.") from error
