"""Converts programs to other forms, once per program; the results are cached by content."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.checking.kinds import worker_for_framework
from driftline.core.case import Case
from driftline.core.config import cache_home
from driftline.core.execution import Failure, Outcome
from driftline.core.files import BIG
from driftline.core.handover import handed_file, remove_file, remove_folder
from driftline.core.program import Program, file_digest
from driftline.core.target import Target
from driftline.core.tensors import Arrays, save_tensors
from driftline.execute.environments import find_environment
from driftline.execute.pool import Pool, WorkerKind, WorkerStartError
from driftline.execute.requests import ENDED
from driftline.programs.convert import CAPTURE, Converter, ConvertRequest, accepts_directly
from driftline.programs.opened import open_axes


@dataclass(frozen=True)
class Conversion:
    """A program in another form, or why there is none."""

    outcome: Outcome
    program: Program | None = None
    failure: Failure | None = None
    log: str = ""
    seconds: float = 0.0
    problem: str = ""  # why the conversion says nothing about the converter


class Conversions:
    """Converts each program at most once: cached in memory for this run, on disk for the next."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._made: dict[str, Conversion] = {}
        self._locks: dict[str, threading.Lock] = defaultdict(threading.Lock)

    def convert(self, case: Case, converter: Converter) -> Conversion:
        """Return the conversion of the case's program, made or cached."""
        key = _key(case, converter)
        with self._locks[key]:
            if key not in self._made:
                self._made[key] = self._convert(case, converter, key)
            return self._made[key]

    def shared_capture(self, case: Case, target: Target) -> str:
        """Return the path of the program as exported by `torch.export`, made once if several targets of the case start
        from it. Returns an empty string if there is none: then the target exports the program itself, and a failure to
        do so is its own."""
        program = case.program
        if not accepts_directly(program.form, program.framework, CAPTURE.source) or program.weights >= BIG:
            return ""
        takers = [other for other in case.targets if BACKENDS.get(other.backend).captures and not other.version]
        if target not in takers or len(takers) < 2:
            return ""
        made = self.convert(case, CAPTURE).program
        return str(made.path) if made else ""

    def forget(self, case: Case, converter: Converter) -> None:
        """Delete the conversion of a program that will not be used again."""
        made = self._made.pop(_key(case, converter), None)
        if made and made.program:
            remove_file(made.program.path)

    def _convert(self, case: Case, converter: Converter, key: str) -> Conversion:
        kept = cache_home() / "converted" / f"{key}.{converter.form}"
        if kept.exists():
            return _converted(case.program, converter, kept)
        worker = _worker(converter, case.options.plugins)
        if worker is None:
            reason = f"needs {converter.name}: driftline env add {converter.requirement}"
            return Conversion(Outcome.REJECTED, failure=Failure("Unavailable", reason))
        folder = self._pool.workspace.job_folder()
        output = folder / f"program.{converter.form}"
        save_tensors(folder / "example", _example(case))
        options = case.options
        request = ConvertRequest(
            case.program, folder / "example", output, _open_axes(case), options.seed, options.plugins
        )
        try:
            report = self._pool.run(
                worker, converter.task, request, timeout=options.timeout, memory_limit=options.memory_limit
            )
        except WorkerStartError as error:
            return Conversion(Outcome.REJECTED, failure=Failure("Unavailable", str(error)))
        answer = report.answer
        if report.spoilt:
            return Conversion(Outcome.ERROR, None, None, report.log, report.seconds, report.spoilt)
        if answer is None:
            failure = Failure(report.ending, report.detail)
            return Conversion(ENDED[report.ending], None, failure, report.log, report.seconds)
        if answer.outcome is not Outcome.OK:
            return Conversion(answer.outcome, None, answer.failure, report.log, report.seconds, answer.problem)
        data = answer.data
        for name in (output.name, *data):
            handed_file(folder / name, options.memory_limit)
        if data:  # big: kept for this run only, beside the program itself
            kept = self._pool.workspace.root / "programs" / kept.name
            for name in data:
                if not kept.with_name(name).exists():  # named by its content, or by that of another program
                    os.replace(folder / name, kept.with_name(name))
        kept.parent.mkdir(parents=True, exist_ok=True)
        os.replace(output, kept)  # scratch files are in the cache folder too
        remove_folder(folder)
        return replace(_converted(case.program, converter, kept, data), seconds=report.seconds)


def _converted(program: Program, converter: Converter, path: Path, data: tuple[str, ...] = ()) -> Conversion:
    made = replace(program, form=converter.form, digest=file_digest(path), path=path, state="", origin="", data=data)
    return Conversion(Outcome.OK, made)


def _worker(converter: Converter, plugins: Sequence[str]) -> WorkerKind | None:
    if not converter.environment:
        return worker_for_framework(converter.family, tuple(plugins))
    environment = find_environment([converter.environment], None)
    if environment is None:
        return None
    warm = (("importlib:import_module", "driftline.programs.convert"),)
    return WorkerKind(converter.family, environment.python, warm)


def _key(case: Case, converter: Converter) -> str:
    """Return a key of everything that the result depends on, including plug-ins, which may change a converter or
    functions that the program calls."""
    plugins = [file_digest(Path(name)) for name in case.options.plugins]
    shapes = [(name, array.dtype.name, array.shape) for name, array in _example(case).items()]
    releases = [_release(name) for name in ("torch", "onnx", "onnxscript")]
    program, axes = (case.program.digest, case.program.state, case.options.seed), _open_axes(case)
    parts = (*program, shapes, axes, converter, releases, *plugins)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _open_axes(case: Case) -> dict[str, tuple[int, ...]]:
    """Return the axes that must stay dynamic, because the program is run at several sizes."""
    return open_axes([sample.arrays for sample in case.samples])


def _example(case: Case) -> Arrays:
    """Return the sample that exporters see. They treat a size of 1 or 0 as a constant, so other samples are
    preferred."""
    axes = _open_axes(case)
    if not axes:
        return case.samples[0].arrays

    def smallest(arrays: Arrays) -> int:
        return min(min(2, arrays[name].shape[axis]) for name, several in axes.items() for axis in several)

    return max((sample.arrays for sample in case.samples), key=smallest)


def _release(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
