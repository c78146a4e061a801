"""Checks the random numbers of a compiler that draws them with a generator of its own, over many seeds."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from driftline.backends import BACKENDS
from driftline.backends.base import Compiled
from driftline.core.case import Case
from driftline.core.case_files import CaseFiles
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.task import Context, Task
from driftline.core.tensors import Arrays, copied
from driftline.core.text import first_line
from driftline.core.verdict import Judgement, Verdict
from driftline.execute.own_fault import is_ours
from driftline.oracle.draws import CALLS, CHANCE, FEWEST, Series, differing, facts_of, is_half, verdict_on
from driftline.programs.opened import OpenedProgram

MOST_SECONDS = 10.0  # of the calls of one side
OTHER_SEEDS = 10_000  # the first of those with which a difference must show again


@dataclass(frozen=True)
class SeedsRequest:
    """Asks to call a program with many seeds, in eager mode and compiled."""

    case: CaseFiles
    target: Target
    first_seed: int


@dataclass(frozen=True)
class SeedsAnswer:
    """The random numbers of both sides. `problem`: why there are none."""

    eager: Series = field(default_factory=Series)
    compiled: Series = field(default_factory=Series)
    problem: str = ""


DRAW = Task("driftline.checking.draws:draw", SeedsRequest, SeedsAnswer)


class Draws(Protocol):
    """The method of a checker that runs the task."""

    def drawn(self, case: Case, target: Target, first_seed: int) -> SeedsAnswer: ...


def draws_alone(target: Target) -> bool:
    """True if the target's random numbers come from the compiler's own generator."""
    return BACKENDS.get(target.backend).draws_alone(dict(target.options))


def with_own_generators(targets: Collection[Target]) -> tuple[Target, ...]:
    """Return the targets, and each that draws as eager does a second time, with its compiler's own generator."""
    more = []
    for target in targets:
        own = BACKENDS.get(target.backend).own_random
        if own and not own.keys() & dict(target.options).keys():
            more.append(target.also(own.items()))
    return (*targets, *(target for target in dict.fromkeys(more) if target not in targets))


def judged_draws(checker: Draws, case: Case, target: Target) -> tuple[Verdict, tuple[int, int]]:
    """Return the verdict on the random numbers of a target, the number of failed runs, and the number of runs. A
    difference counts if it shows with other seeds, too."""
    first = checker.drawn(case, target, 0)
    if first.problem:
        return Verdict(Judgement.INCONCLUSIVE, f"its random numbers cannot be judged: {first.problem}"), (0, 1)
    suspects = {one.name for one in differing(first.eager, first.compiled) if one.chance < CHANCE}
    unrepeatable = first.eager.repeats and not first.compiled.repeats
    if not suspects and not unrepeatable:
        return verdict_on(first.eager, first.compiled, ()), (0, 1)
    again = checker.drawn(case, target, OTHER_SEEDS)
    kept = [one for one in differing(again.eager, again.compiled) if one.name in suspects]
    verdict = verdict_on(again.eager, again.compiled, kept)
    return verdict, (2 if verdict.judgement is Judgement.FAIL else 1, 2)


@DRAW.serve
def draw(request: SeedsRequest, context: Context) -> SeedsAnswer:
    """Return the facts of both sides for the same seeds."""
    load_plugins(request.case.plugins)
    arrays = request.case.samples()[0]
    target = request.target
    sides: list[Series] = []
    for name, options in (("eager", {}), (target.backend, BACKENDS.get(target.backend).told(target.told))):
        program = OpenedProgram.of(request.case, arrays, context.enter)
        try:
            compiled = BACKENDS.get(name).compile(program, options)
            sides.append(_series(program, compiled, arrays, request.first_seed))
        except DriftlineError as error:
            return SeedsAnswer(problem=str(error))
        except Exception as error:
            if is_ours(error):
                raise
            return SeedsAnswer(problem=f"{name} raises {type(error).__name__}: {first_line(str(error), 150)}")
        if any(len(numbers) < FEWEST for numbers in sides[-1].facts.values()):
            return SeedsAnswer(problem="a call takes too long to be repeated")
    return SeedsAnswer(sides[0], sides[1])


def _series(program: OpenedProgram, compiled: Compiled, arrays: Arrays, first_seed: int) -> Series:
    facts: dict[str, list[float]] = {}

    def call() -> Arrays:
        return copied(compiled(copied(arrays)))

    program.drawn_otherwise = first_seed
    program.reseed()
    begun = call()
    program.reseed()
    again = call()
    ends = time.monotonic() + MOST_SECONDS
    for number in range(CALLS):
        if time.monotonic() > ends:
            break
        program.drawn_otherwise = first_seed + number
        program.reseed()
        outputs = call()
        for fact, value in facts_of(outputs, call()).items():
            facts.setdefault(fact, []).append(value)
    repeats = all(array.tobytes() == again[name].tobytes() for name, array in begun.items())
    half = any(is_half(array) for array in begun.values())
    return Series({fact: tuple(numbers) for fact, numbers in facts.items()}, repeats, half)
