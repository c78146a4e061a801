"""The requests and answers of batch screening: make programs, run them (`execute/requests.py`), judge them.

The functions are in `checking/batch_tasks.py`. A program starts as a `ProgramRequest` and is made into a
`PreparedProgram`; the worker of the target gets it as a `BatchJob`, the judge as a `JudgeItem`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.handover import handed
from driftline.core.program import Program
from driftline.core.task import Task
from driftline.generate.graph import Graph

_TASKS = "driftline.checking.batch_tasks"


# -- the arms of generators


@dataclass(frozen=True)
class ArmsRequest:
    form: str
    generators: tuple[str, ...]
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArmsAnswer:
    """The arms of each generator, and the missing package of each generator that needs one."""

    arms: Mapping[str, tuple[str, ...]]
    missing: Mapping[str, str]


ARMS = Task(f"{_TASKS}:arms", ArmsRequest, ArmsAnswer)


# -- making


@dataclass(frozen=True)
class ProgramRequest:
    """A request for a program: from a generator, or from an existing graph or model (a part of another program).

    Stored with suspects: new fields need a default.
    """

    generator: str
    arm: str
    number: int
    strategies: tuple[str, ...]  # the origin of the inputs, one for each sample
    seed: str
    base: Graph | None = None  # the graph to change
    avoid: tuple[str, ...] = ()  # "operator dtype"
    graph: Graph | None = None  # the graph of the program, if it exists already
    inputs: str = ""  # the file of its input samples
    values: str = ""  # the file with the values of the whole program in each call, for a part of it
    sources: tuple[int, ...] = ()  # for each leaf of the part, its number in the whole
    text: str = ""  # the text that a language model wrote
    mode: str = ""  # the kind of request to the model
    copy: bool = False  # the text has run before: it is to run on other sizes
    options: tuple[tuple[str, str], ...] = ()  # of the target, besides the lane's own
    model: str = ""  # the path of the program itself: an ONNX model or a source bundle
    coverage: tuple[tuple[str, str], ...] = ()  # its operators, with dtypes


@dataclass(frozen=True)
class PrepareRequest:
    """A request to make programs, draw their inputs and run their reference."""

    folder: Path
    form: str
    seed: int
    sizes: bool  # True: make programs with several sizes
    requests: tuple[ProgramRequest, ...]
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class PreparedProgram:
    """A program that was made, with its inputs and the results of its reference."""

    program: Program
    tensors: str  # the place of its input samples on a shelf
    native: str  # the place of the reference's results on a shelf
    origins: tuple[str, ...]  # the origin of each sample
    grad: bool
    company: str  # programs with the same text may be compiled together
    coverage: tuple[tuple[str, str], ...] = ()  # operators with dtypes
    graph_text: str = ""  # JSON, parsed only when needed: a hunt would otherwise parse the graphs of all programs
    pairs: tuple[str, ...] = ()  # pairs of operators of which one reads the other's result (`generate/features.py`)
    by_memory: bool = False  # its result depends on the memory layout of its inputs
    each: bool = False  # a verdict on every sample is wanted
    unfit: tuple[str, ...] = ()  # for each requested input, why it is not among the samples, or an empty string
    flaws: tuple[str, ...] | None = None  # nonsensical parts of the program, if it was searched for them
    authored: bool = False  # a language model wrote its text, which may have changed the process that ran it
    features: tuple[str, ...] = ()  # see `generate/features.py`
    seconds: float = 0.0  # seconds to make it and to run its reference
    options: tuple[tuple[str, str], ...] = ()  # options for its run, besides those of the target

    @cached_property
    def graph(self) -> Graph | None:
        return Graph.from_json(json.loads(self.graph_text)) if self.graph_text else None


@dataclass(frozen=True)
class InvalidProgram:
    """A program that does not run, whatever the compiler."""

    reason: str
    coverage: tuple[tuple[str, str], ...] = ()
    died: str = ""  # how the worker ended that made it
    internal_error: str = ""  # a fault of the generator
    seconds: float = 0.0


@dataclass(frozen=True)
class NothingMade:
    """The result of a request for which the generator has no program."""

    reason: str
    name: str = ""  # a short name of the reason, where reasons are counted


Prepared = PreparedProgram | InvalidProgram | NothingMade


@dataclass(frozen=True)
class PreparedBatch:
    """The prepared programs, one for each request, in order."""

    programs: tuple[Prepared, ...]


def _prepared(asked: PrepareRequest, answer: PreparedBatch) -> bool:
    """True if there is an answer to each request. A stranger's text may name no files but those of its job."""
    if len(answer.programs) != len(asked.requests):
        return False
    for item, made in zip(asked.requests, answer.programs, strict=True):
        if item.text and isinstance(made, PreparedProgram):
            for place in (made.program.path, made.tensors, made.native):
                handed(place)
            if len(made.origins) != len(item.strategies):
                return False
    return True


PREPARE = Task(f"{_TASKS}:prepare", PrepareRequest, PreparedBatch, _prepared)


# -- judging


@dataclass(frozen=True)
class JudgeItem:
    """A program that ran, with the places of its outputs on a shelf."""

    program: Program
    tensors: str
    native: str
    grad: bool
    outputs: tuple[str, ...]
    each: bool = False


@dataclass(frozen=True)
class JudgeRequest:
    """A request to judge programs that ran on one target."""

    items: tuple[JudgeItem, ...]
    mutates: bool
    renames: bool
    arithmetic: str = ""
    on_gpu: bool = False
    explain: bool = True  # find less precise arithmetic that makes a failure right: several judgements
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class SampleVerdict:
    """The verdict on one sample."""

    judgement: str
    reason: str = ""
    kind: str = ""
    z: float = 0.0
    evidence: Evidence = NOTHING  # of a failure


@dataclass(frozen=True)
class ProgramVerdict:
    """The verdict on the first sample that fails, else on one that passes."""

    verdict: SampleVerdict
    sample: int = 0
    each: tuple[SampleVerdict, ...] = ()  # the verdict on every sample, if wanted
    internal_error: str = ""
    seconds: float = 0.0  # seconds that the judgement took


@dataclass(frozen=True)
class JudgedPrograms:
    verdicts: tuple[ProgramVerdict, ...]


JUDGE_MANY = Task(
    f"{_TASKS}:judge_many", JudgeRequest, JudgedPrograms, lambda asked, found: len(found.verdicts) == len(asked.items)
)
