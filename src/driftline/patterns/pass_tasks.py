"""Worker tasks of any compiler with passes: which passes change a program, and whether its results stay the same.

A program is compiled without any pass and with every pass that changes it. If a compiler accepts several passes at
once, all passes that change the program are tried together first: if the results are bit-identical, only those in
`watched` are also tried alone. Differences that rounding explains are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driftline.backends import BACKENDS
from driftline.backends.base import Backend, PassTrials, Unsupported
from driftline.core.plugins import load_plugins
from driftline.core.task import Context, Task
from driftline.core.tensors import Arrays
from driftline.core.text import telling_line
from driftline.patterns.rounding import only_rounded
from driftline.patterns.survey import Models, Surveyed, SurveyJob, SurveySeen, difference, each_job, far_apart
from driftline.programs.opened import OpenedProgram

_ME = "driftline.patterns.pass_tasks"


@dataclass(frozen=True)
class PassListRequest:
    """Asks for the passes of a compiler."""

    backend: str
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class ListedPass:
    name: str
    group: str
    untried: str


@dataclass(frozen=True)
class PassList:
    passes: tuple[ListedPass, ...]


@dataclass(frozen=True)
class PassAuditRequest:
    models: Models
    backend: str
    names: tuple[str, ...]  # passes to try
    watched: tuple[str, ...]  # passes that are tried alone on every program that they change
    plugins: tuple[str, ...] = ()


LIST = Task(f"{_ME}:list_passes", PassListRequest, PassList)
AUDIT = Task(f"{_ME}:audit", PassAuditRequest, Surveyed)


@LIST.serve
def list_passes(request: PassListRequest, context: Context) -> PassList:
    load_plugins(request.plugins)
    listed = BACKENDS.get(request.backend).passes()
    return PassList(tuple(ListedPass(one.name, one.group, one.untried) for one in listed))


@AUDIT.serve
def audit(request: PassAuditRequest, context: Context) -> Surveyed:
    """Report for each program the passes that changed it, and those that changed its results."""
    load_plugins(request.plugins)
    backend = BACKENDS.get(request.backend)
    for job in each_job(request.models, context):
        try:
            job.answer(_audit_one(job, backend, request.names, frozenset(request.watched)))
        except Exception as error:  # the compiler does not take this program at all: that is the business of `check`
            job.answer(SurveySeen(failed=telling_line(str(error)) or type(error).__name__))
    return Surveyed()


def _audit_one(job: SurveyJob, backend: Backend, names: Sequence[str], watched: frozenset[str]) -> SurveySeen:
    samples = job.samples()
    trials = backend.pass_trials(OpenedProgram(job.model.program, example=samples[0]))
    plain = _results(trials, (), samples)
    fired, differing = [], {}
    for name in names:
        try:
            if trials.changes(name):
                fired.append(name)
        except Unsupported:  # it declines the program
            continue
        except Exception as error:
            differing[name] = _raised(error)
    for name in _to_try(trials, fired, plain, samples, watched):
        try:
            after = _results(trials, (name,), samples)
        except Unsupported:
            continue
        except Exception as error:
            differing[name] = _raised(error)
            continue
        if (seen := difference(plain, after)) and not _rounding(job, plain, after):
            differing[name] = seen
    return SurveySeen((*fired, *(name for name in differing if name not in fired)), tuple(fired), differing)


def _rounding(job: SurveyJob, plain: list[Arrays], after: list[Arrays]) -> bool:
    """True if rounding explains the difference. Programs that are not ONNX models get only a rough test here; `check`
    decides."""
    if job.model.program.form == "onnx":
        return only_rounded(job, after)
    return not far_apart(plain, after)


def _to_try(
    trials: PassTrials, fired: Sequence[str], plain: list[Arrays], samples: Sequence[Arrays], watched: frozenset[str]
) -> Sequence[str]:
    """Return the passes to try alone."""
    if not trials.together or len(fired) < 2:
        return fired
    try:
        same = not difference(plain, _results(trials, fired, samples))
    except Exception:  # which of them it was is seen one by one
        return fired
    return [name for name in fired if name in watched] if same else fired


def _results(trials: PassTrials, names: Sequence[str], samples: Sequence[Arrays]) -> list[Arrays]:
    run = trials.compiled(names)
    return [run(arrays) for arrays in samples]


def _raised(error: Exception) -> str:
    return f"raises {type(error).__name__}: {telling_line(str(error))}"
