"""The lab for programs that are named by text, as commands do: everything of torch happens in a worker.

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

TIMEOUT = 900.0
ORACLES_SHARE = 0.6  # of the time, after which the oracle begins no further run: that one may take long, too
MEMORY = 16 << 30  # bytes: the oracle plays a model of full size in float64, beside the model itself


def capture_program(
    text: str, pool: Pool, out: Path, *, backend: str = "inductor", device: str = "cpu", grad: bool = False,
    dynamic: bool | None = None, seed: int = 0, timeout: float = TIMEOUT, listener: Listener = ignore,
) -> tuple[LabRun, str]:  # fmt: skip
    """Capture a program; the run, and what the compiler raised, if it did."""
    opened, case = _prepare(text, pool, grad, seed, timeout, listener)
    request = LabRequest(case, opened.program.name, backend, device, dynamic)
    listener(Working(text, "compiling and running it, and reading what torch.compile did"))
    return _ask(pool, CAPTURE, request, out, timeout)


def inspect_program(
    text: str, pool: Pool, out: Path, *, shapes: Mapping[str, Sequence[tuple[int, ...]]] | None = None,
    grad: bool = False, dynamic: bool | None = None, seed: int = 0, timeout: float = TIMEOUT,
    listener: Listener = ignore,
) -> LabRun:  # fmt: skip
    """Inspect the guards of a program, called once with each of several shapes."""
    opened, case = _prepare(text, pool, grad, seed, timeout, listener, shapes or {})
    request = LabRequest(case, opened.program.name, dynamic=dynamic)
    listener(Working(text, "compiling it, once for each call"))
    return _ask(pool, GUARDS, request, out, timeout)[0]


def diff_program(
    text: str, pool: Pool, out: Path, *, backend: str = "inductor", reference: str = "eager", device: str = "cpu",
    grad: bool = False, runs: int = 1, pictures: bool = False, seed: int = 0, timeout: float = TIMEOUT,
    listener: Listener = ignore,
) -> LabRun:  # fmt: skip
    """Compare what two backends of torch.compile make of a program."""
    opened, case = _prepare(text, pool, grad, seed, timeout, listener)
    listener(Working(text, f"running {reference} and {backend}, and judging"))
    request = LabRequest(
        case, opened.program.name, backend, device, reference=reference, runs=runs, pictures=pictures,
        patience=timeout * ORACLES_SHARE,
    )  # fmt: skip
    return _ask(pool, DIFF, request, out, timeout)[0]


def _prepare(
    text: str, pool: Pool, grad: bool, seed: int, timeout: float, listener: Listener,
    shapes: Mapping[str, Sequence[tuple[int, ...]]] | None = None,
) -> tuple[LoadedProgram, CaseFiles]:  # fmt: skip
    listener(Working(text, "loading"))
    opened = open_program(text, pool, CheckOptions(grad=grad, seed=seed, timeout=timeout))
    if opened.program.framework != "torch":
        raise DriftlineError(f"{text} is a {opened.program.framework} program; the lab is for torch programs.")
    folder = pool.workspace.job_folder()
    paths = []
    for number, arrays in enumerate(_samples(opened.example, shapes or {})):
        paths.append(folder / f"input{number}")
        save_tensors(paths[-1], arrays)
    return opened, CaseFiles(opened.program, tuple(paths), folder, grad, seed)


def _samples(example: Arrays, shapes: Mapping[str, Sequence[tuple[int, ...]]]) -> list[Arrays]:
    """The example, in each of the shapes that were asked for."""
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
