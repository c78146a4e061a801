"""Inside a worker of any compiler with passes: which of them change a program, and whether it still computes the same.

A program is compiled without any pass and with every pass that changes it. Where a compiler takes several passes at
once, all that change it are tried together first: when that gives the same bits, only those that are `watched` are
tried alone too. A difference that rounding explains is none.
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
    """Which passes does this compiler have?"""

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
    watched: tuple[str, ...]  # those that are tried alone wherever they change something
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
    """For each program: the passes that changed it, and those after which it computes something else."""
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
    """Is it what rounding makes? Of programs that are no ONNX models a first look must do: `check` decides."""
    if job.model.program.form == "onnx":
        return only_rounded(job, after)
    return not far_apart(plain, after)


def _to_try(
    trials: PassTrials, fired: Sequence[str], plain: list[Arrays], samples: Sequence[Arrays], watched: frozenset[str]
) -> Sequence[str]:
    """The passes that are to be tried alone."""
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
