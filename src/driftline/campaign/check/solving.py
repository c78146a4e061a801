"""Inputs that a solver finds for a program, for `driftline inputs` and `check --inputs symbolic`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftline.checking.kinds import worker_for_framework
from driftline.checking.open import LoadedProgram
from driftline.checking.written import write_case
from driftline.core import strangers
from driftline.core.announce import Announce
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.config import cache_home
from driftline.core.errors import DriftlineError
from driftline.core.handover import handed
from driftline.core.tensors import Arrays, is_float, load_tensors, save_tensors
from driftline.core.text import last_words
from driftline.execute.pool import Pool
from driftline.inputs.make import InputMaker
from driftline.inputs.room import room_for_inputs
from driftline.inputs.symbolic.answers import SolverOutcome
from driftline.inputs.symbolic.cached import KnownAnswers, read_answers, write_answers
from driftline.inputs.symbolic.formats import parse_format
from driftline.inputs.symbolic.goals import parse_goals
from driftline.inputs.symbolic.requests import SEARCH, SearchRequest, SearchRow
from driftline.inputs.symbolic.rewrites import REWRITES

GOALS = "nan,inf,overflow,error:1e-2"
BUDGET = 30.0
_SLACK = 120.0  # seconds for loading and tracing the program


@dataclass(frozen=True)
class Solved:
    """The result of a search: one row for each goal at each node, and the inputs that reach a goal in the whole
    program."""

    program: str
    rows: tuple[SearchRow, ...]
    unasked: int = 0
    witnesses: Mapping[int, Inputs] | None = None  # by the index of the row

    @property
    def inputs(self) -> list[Inputs]:
        return list((self.witnesses or {}).values())

    def to_json(self) -> dict[str, Any]:
        return {"program": self.program, "rows": [row.to_json() for row in self.rows], "unasked": self.unasked}


def check_request(goals: str, dtype: str | None) -> None:
    """Raise DriftlineError unless the goals and the dtype can be parsed."""
    parse_goals(goals, list(REWRITES))
    if dtype:
        parse_format(dtype)


def _with_new(known: KnownAnswers, found: KnownAnswers) -> KnownAnswers:
    """Return the known answers with those that a search found. Of a stranger's process only witnesses count, which are
    run before they are believed, and none that replaces another answer: they serve other programs, too."""
    if not strangers.admitted():
        return {**known, **found}
    witnesses = {key: told for key, told in found.items() if told[0] == SolverOutcome.WITNESS}
    return {**witnesses, **known}


def solve_inputs(
    pool: Pool,
    opened: LoadedProgram,
    maker: InputMaker,
    options: CheckOptions,
    *,
    goals: str = GOALS,
    budget: float = BUDGET,
    dtype: str | None = None,
    node: str = "",
    most: int = 0,
    say: Announce = lambda words: None,
) -> Solved:
    """Search inputs in a worker. `most`: stop after this many inputs that reach a goal in the whole program (0: no
    limit)."""
    program = opened.program
    if program.framework not in ("torch", "onnx"):
        raise DriftlineError(
            f"{program.name} is a {program.framework} program; solving looks inside torch programs and ONNX models."
        )
    if not any(is_float(spec.dtype) for spec in program.inputs):
        raise DriftlineError(f"{program.name} has no float inputs: there is nothing to solve for.")
    first = Inputs(maker.example, "example") if maker.example and not maker.sizes else maker.random(options.seed, 0)
    files = write_case(pool.workspace, Case(program, (first,), (), options))
    cache = files.folder / "answers.json"
    kept = cache_home() / "slices.json"
    if known := read_answers(kept):
        write_answers(cache, known)
    request = SearchRequest(files, goals, budget, dtype or "", node, most, cache)
    report = pool.run(
        worker_for_framework("torch", options.plugins),
        SEARCH,
        request,
        timeout=budget + _SLACK,
        memory_limit=options.memory_limit,
        fresh=True,
        entering=say,
    )
    if report.answer is None:
        words = {"timeout": "did not come to an end", "memory": "ran out of memory", "died": "killed its process"}
        raise DriftlineError(f"Solving {program.name} {words[report.ending]}. {last_words(report.log)}".strip())
    if report.answer.problem:
        raise DriftlineError(report.answer.problem)
    with contextlib.suppress(OSError):  # a cache that cannot be written is not used
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_answers(kept, _with_new(read_answers(kept), read_answers(cache)))
    room = room_for_inputs(options.memory_limit)
    found = {
        number: Inputs(load_tensors(handed(row.inputs), most=room), f"symbolic {row.goal} at {row.node}")
        for number, row in enumerate(report.answer.rows)
        if row.inputs is not None
    }
    return Solved(program.name, report.answer.rows, report.answer.unasked, found)


def symbolic_samples(
    pool: Pool, opened: LoadedProgram, maker: InputMaker, options: CheckOptions, count: int
) -> tuple[Inputs, ...]:
    """Return up to `count` different inputs for a check, of different goals if possible."""
    solved = solve_inputs(pool, opened, maker, options, most=max(3, count + 1))
    by_goal: dict[str, list[Inputs]] = {}
    for number, one in (solved.witnesses or {}).items():
        by_goal.setdefault(solved.rows[number].goal, []).append(one)
    chosen: list[Inputs] = []
    turn = 0
    while len(chosen) < count and any(len(found) > turn for found in by_goal.values()):
        for found in by_goal.values():
            if len(found) > turn and not any(_same(found[turn].arrays, one.arrays) for one in chosen):
                chosen.append(found[turn])
        turn += 1
    if not chosen:
        raise DriftlineError(
            f"No inputs that drive {opened.program.name} to {GOALS} were found within {BUDGET:g} s;"
            " `driftline inputs` shows why. Use --inputs specials."
        )
    return tuple(chosen[:count])


def _same(one: Arrays, other: Arrays) -> bool:
    return all(np.array_equal(array, other[name]) for name, array in one.items())


def write_inputs(path: Path, witnesses: Sequence[Inputs]) -> list[Path]:
    """Write each input to a file and return the paths. The first file is `path`; the others get a number."""
    written = []
    for number, one in enumerate(witnesses):
        place = path if not number else path.with_name(f"{path.stem}-{number + 1}{path.suffix}")
        if place.suffix == ".safetensors":
            save_tensors(place, one.arrays)
        else:
            with open(place, "wb") as file:
                np.savez(file, **one.arrays)  # type: ignore[arg-type]
        written.append(place)
    return written
