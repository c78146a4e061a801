"""What is asked and answered while a batch of programs is screened: make them, run them (`execute/requests.py`), judge.

The functions are in `checking/batch_tasks.py`. A program is a `ProgramRequest` when it is asked for and a
`PreparedProgram` when it is made; the worker of the target gets it as a `BatchJob`, the judge as a `JudgeItem`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.program import Program
from driftline.core.task import Task
from driftline.generate.graph import Graph

_TASKS = "driftline.checking.batch_tasks"


# -- what generators can be asked for


@dataclass(frozen=True)
class ArmsRequest:
    form: str
    generators: tuple[str, ...]
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArmsAnswer:
    """By generator: what it can be asked for, and which package it needs that is not installed."""

    arms: Mapping[str, tuple[str, ...]]
    missing: Mapping[str, str]


ARMS = Task(f"{_TASKS}:arms", ArmsRequest, ArmsAnswer)


# -- making


@dataclass(frozen=True)
class ProgramRequest:
    """A program that is asked for: of a generator, or one whose graph or model is there already (a part of another).

    Kept in the store with a suspect: fields may be added, with a default."""

    generator: str
    arm: str
    number: int
    strategies: tuple[str, ...]  # where its inputs come from, one for each sample
    seed: str
    base: Graph | None = None  # to be changed
    avoid: tuple[str, ...] = ()  # "operator dtype"
    graph: Graph | None = None  # this very program
    inputs: str = ""  # the place of its input samples
    values: str = ""  # the place of the values that a whole program had in each call, where this is a part of it
    sources: tuple[int, ...] = ()  # the number in the whole of each leaf of the part
    text: str = ""  # what a language model wrote
    mode: str = ""  # what it was asked to do
    copy: bool = False  # its text is known: it is wanted on other sizes
    options: tuple[tuple[str, str], ...] = ()  # of the target, besides the lane's own
    model: str = ""  # the place of this very program: an ONNX model, or a source bundle
    coverage: tuple[tuple[str, str], ...] = ()  # its operators, with dtypes


@dataclass(frozen=True)
class PrepareRequest:
    folder: Path
    form: str
    seed: int
    sizes: bool  # programs with several sizes are wanted as such
    requests: tuple[ProgramRequest, ...]
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class PreparedProgram:
    """A program that was made, with its inputs and the results of its reference."""

    program: Program
    tensors: str  # the place of its input samples
    native: str  # the place of what the reference makes of them
    origins: tuple[str, ...]  # where each sample comes from
    grad: bool
    company: str  # those of one company may be compiled together
    coverage: tuple[tuple[str, str], ...] = ()  # operators with dtypes
    graph_text: str = ""  # as JSON: few graphs are looked at, and whoever runs a hunt would read those of all programs
    pairs: tuple[str, ...] = ()  # which operators read the result of which (`generate/features.py`)
    by_memory: bool = False  # what it means depends on how its inputs lie in memory
    each: bool = False  # the verdict on every sample is wanted
    unfit: tuple[str, ...] = ()  # of inputs that were asked for: why they are not among the samples, or nothing
    flaws: tuple[str, ...] | None = None  # what makes no sense in it, where that was looked at
    authored: bool = False  # a language model wrote its text: it may have changed the process that it ran in
    features: tuple[str, ...] = ()  # see `generate/features.py`
    seconds: float = 0.0  # that it took to make it and to run its reference
    options: tuple[tuple[str, str], ...] = ()  # which it is run with, besides those of the target

    @cached_property
    def graph(self) -> Graph | None:
        return Graph.from_json(json.loads(self.graph_text)) if self.graph_text else None


@dataclass(frozen=True)
class InvalidProgram:
    """A program that does not run, whatever the compiler."""

    reason: str
    coverage: tuple[tuple[str, str], ...] = ()
    died: str = ""  # how the worker ended that made it
    internal_error: str = ""  # a fault of the generator's
    seconds: float = 0.0


@dataclass(frozen=True)
class NothingMade:
    """The generator has no such program."""

    reason: str
    name: str = ""  # of the reason, where those are counted


Prepared = PreparedProgram | InvalidProgram | NothingMade


@dataclass(frozen=True)
class PreparedBatch:
    """One for each request, in their order."""

    programs: tuple[Prepared, ...]


PREPARE = Task(f"{_TASKS}:prepare", PrepareRequest, PreparedBatch)


# -- judging


@dataclass(frozen=True)
class JudgeItem:
    """A program that ran, with the places of its outputs."""

    program: Program
    tensors: str
    native: str
    grad: bool
    outputs: tuple[str, ...]
    each: bool = False


@dataclass(frozen=True)
class JudgeRequest:
    items: tuple[JudgeItem, ...]
    mutates: bool
    renames: bool
    arithmetic: str = ""
    on_gpu: bool = False
    explain: bool = True  # which less precise arithmetic would make a failure legal: it takes several judgements
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class SampleVerdict:
    """A verdict as it travels."""

    judgement: str
    reason: str = ""
    kind: str = ""
    z: float = 0.0
    evidence: Evidence = NOTHING  # of a failure


@dataclass(frozen=True)
class ProgramVerdict:
    """The verdict that counts: on the first sample that fails, else on one that passes."""

    verdict: SampleVerdict
    sample: int = 0
    each: tuple[SampleVerdict, ...] = ()  # where it is wanted
    internal_error: str = ""
    seconds: float = 0.0  # that it took


@dataclass(frozen=True)
class JudgedPrograms:
    verdicts: tuple[ProgramVerdict, ...]


JUDGE_MANY = Task(f"{_TASKS}:judge_many", JudgeRequest, JudgedPrograms)
