"""The lab for programs that are named by text, as in commands: everything that needs torch happens in a worker.

A worker may write to its scratch only; the run it leaves there is copied to the lab folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from driftline.checking.kinds import worker_for_target
from driftline.checking.open import LoadedProgram, open_program
from driftline.core.case import CheckOptions
from driftline.core.case_files import CaseFiles
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.task import Task
from driftline.core.tensors import Arrays, save_tensors
from driftline.core.text import last_words
from driftline.events import Listener, Working, ignore
from driftline.execute.pool import Pool
from driftline.inductor.lab import Lab, LabRun, read_run
from driftline.inductor.requests import CAPTURE, DIFF, GUARDS, LabAnswer, LabRequest
from driftline.inductor.settings import LabSettings

CallShapes = Mapping[str, Sequence[tuple[int, ...]]]  # the shapes of an input, one for each call
NO_SHAPES: CallShapes = {}

ORACLES_SHARE = 0.6  # of the time, after which the oracle begins no further run: that one may take long, too
MEMORY = 16 << 30  # bytes: the oracle plays a model of full size in float64, beside the model itself
DEFAULTS = LabSettings()


def capture_program(
    text: str, pool: Pool, out: Path, settings: LabSettings = DEFAULTS, listener: Listener = ignore
) -> tuple[LabRun, str]:
    """Capture what torch.compile makes of a program; return the run, and the compiler's exception or an empty text."""
    opened, case = _prepare(text, pool, settings, listener)
    request = LabRequest(case, opened.program.name, settings.backend, settings.device, settings.dynamic)
    listener(Working(text, "compiling and running it, and reading what torch.compile did"))
    return _ask(pool, CAPTURE, request, out, settings.timeout)


def inspect_program(
    text: str, pool: Pool, out: Path, settings: LabSettings = DEFAULTS, *, shapes: CallShapes = NO_SHAPES,
    listener: Listener = ignore,
) -> LabRun:  # fmt: skip
    """Inspect the guards of a program, called once with each of several shapes."""
    opened, case = _prepare(text, pool, settings, listener, shapes)
    request = LabRequest(case, opened.program.name, dynamic=settings.dynamic)
    listener(Working(text, "compiling it, once for each call"))
    return _ask(pool, GUARDS, request, out, settings.timeout)[0]


def diff_program(
    text: str, pool: Pool, out: Path, settings: LabSettings = DEFAULTS, listener: Listener = ignore
) -> LabRun:
    """Compare the results of two backends of torch.compile on a program."""
    opened, case = _prepare(text, pool, settings, listener)
    listener(Working(text, f"running {settings.reference} and {settings.backend}, and judging"))
    request = LabRequest(
        case, opened.program.name, settings.backend, settings.device, reference=settings.reference,
        runs=settings.runs, pictures=settings.pictures, patience=settings.timeout * ORACLES_SHARE,
    )  # fmt: skip
    return _ask(pool, DIFF, request, out, settings.timeout)[0]


def _prepare(
    text: str, pool: Pool, settings: LabSettings, listener: Listener, shapes: CallShapes = NO_SHAPES
) -> tuple[LoadedProgram, CaseFiles]:
    listener(Working(text, "loading"))
    opened = open_program(text, pool, CheckOptions(grad=settings.grad, seed=settings.seed, timeout=settings.timeout))
    if opened.program.framework != "torch":
        raise DriftlineError(f"{text} is a {opened.program.framework} program; the lab is for torch programs.")
    folder = pool.workspace.job_folder()
    paths = []
    for number, arrays in enumerate(_samples(opened.example, shapes)):
        paths.append(folder / f"input{number}")
        save_tensors(paths[-1], arrays)
    return opened, CaseFiles(opened.program, tuple(paths), folder, settings.grad, settings.seed)


def _samples(example: Arrays, shapes: CallShapes) -> list[Arrays]:
    """Return the example inputs in each of the requested shapes."""
    for name in shapes:
        if name not in example:
            raise DriftlineError(f"--shape {name}: the program has no such input, only {', '.join(example)}.")
    count = max((len(several) for several in shapes.values()), default=1)
    return [
        {n: np.resize(a, shapes[n][at % len(shapes[n])]) if n in shapes else a for n, a in example.items()}
        for at in range(count)
    ]


def _ask(
    pool: Pool, task: Task[LabRequest, LabAnswer], request: LabRequest, out: Path, timeout: float
) -> tuple[LabRun, str]:
    from driftline.backends import BACKENDS

    target = Target.parse("inductor" if request.device == "cpu" else f"inductor:device={request.device}")
    kind = worker_for_target(BACKENDS.get("inductor"), target, ())
    report = pool.run(kind, task, request, timeout=timeout, memory_limit=MEMORY, fresh=True)
    if report.answer is None:
        what = {"timeout": f"did not end within {timeout:g} s; raise --timeout", "memory": "ran out of memory"}
        told = what.get(str(report.ending), f"killed its process ({report.detail}); {last_words(report.log)}")
        raise DriftlineError(f"{request.name} {told}.")
    run = read_run(report.answer.run) if report.answer.run else None
    if run is None:
        raise DriftlineError(f"{request.name}: {report.answer.problem or 'nothing was kept'}")
    return Lab(out).adopt(run), report.answer.problem
