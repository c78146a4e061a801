"""Could a hunt find each plant at all? Programs of every generator, run in this process on all plants at once.

All programs of `alone`, a round of `chains`, and some of each other generator. For each plant: how many of
them strike it, so that a result is another one, and what the oracle says of some that do. A plant
that no generator strikes is a gap of the generators; one that is struck and passes is a gap of the oracle, or no bug.
How many programs a hunt makes, in which order, and what triage makes of them is not asked. A plant that needs another
size is judged on one size only.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _detection_plants import PLANTS, Call, Deed, Plant, planted_backend

from driftline.checking.batch_requests import JudgeRequest
from driftline.checking.batch_tasks import judge_sample, write_program
from driftline.core.tensors import Array, Arrays
from driftline.generate import GENERATORS, usual_generators
from driftline.generate.base import Blueprint, GeneratorRequest, NoProgram
from driftline.generate.chains import CHAINS, whole_round
from driftline.generate.lone_operators import ALONE, lone_programs
from driftline.inputs.strategies import INPUTS
from driftline.oracle.judge import TargetTraits
from driftline.programs.opened import OpenedProgram
from driftline.programs.torch_tensors import array_from_tensor

STRATEGIES = ("random", "nan", "specials", "random", "boundary", "infinities")
JUDGED = 4  # programs of each plant that are judged, from different generators where there are


def reach(count: int, seed: int) -> int:
    """Print the table; exits 1 where a plant is out of reach."""
    lost = False
    for language in ("torch", "onnx"):
        plants = [one for one in PLANTS.values() if one.language == language]
        with warnings.catch_warnings(), np.errstate(all="ignore"), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            strikes, said = _struck(plants, language, count, seed, Path(folder))
        for plant in plants:
            found = ", ".join(f"{name} {number}" for name, number in strikes[plant.name].items()) or "nobody"
            judged = ", ".join(f"{verdict} {number}" for verdict, number in said[plant.name].items())
            lost |= not strikes[plant.name] or not (said[plant.name]["fail"] or plant.kind == "process")
            print(f"{plant.name}: struck by {found}; judged: {judged or 'nothing'}", flush=True)
    return int(lost)


def _struck(
    plants: list[Plant], language: str, count: int, seed: int, folder: Path
) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """By plant: how many programs of each generator strike it; and what the oracle said of some."""
    strikes: dict[str, Counter[str]] = defaultdict(Counter)
    said: dict[str, Counter[str]] = defaultdict(Counter)
    seen: set[str] = set()

    def noted(call: Call) -> Any:
        for plant in plants:
            with contextlib.suppress(Exception):
                if _differs(plant.wrong(call), call.result):
                    seen.add(plant.name)
        return None

    watcher = planted_backend(Plant("watcher", language, "values", (), noted), sound=False)
    for name in usual_generators():
        for number, made in enumerate(_programs(name, language, count, seed)):
            seen.clear()
            strategy = STRATEGIES[number % len(STRATEGIES)]
            try:
                drawn = INPUTS.get(strategy).draw(made.inputs, str(number), made.edges).arrays
                inputs = dict(made.example) or dict(drawn)
                program = write_program(made, folder / f"{name}{number}", "one")
                opened = OpenedProgram(program, example=inputs, grad=made.grad)
                run = watcher.compile(opened, {})
                native = run(inputs)
                run({key: np.flip(array) for key, array in inputs.items()})  # a second call, for what goes wrong there
                for shapes in made.sizes:
                    resized = [replace(p, spec=replace(p.spec, shape=shapes[p.spec.name])) for p in made.inputs]
                    run(dict(INPUTS.get(strategy).draw(tuple(resized), str(number), made.edges).arrays))
            except Exception:  # not a program on these inputs
                continue
            for struck in sorted(seen):
                strikes[struck][name] += 1
                if strikes[struck][name] <= 2 and said[struck].total() < JUDGED:
                    said[struck][_verdict(PLANTS[struck], opened, inputs, native)] += 1
    return strikes, said


def _programs(name: str, language: str, count: int, seed: int) -> Iterator[Blueprint]:
    generator = GENERATORS.get(name)
    if generator.needs_base or language not in generator.forms:
        return
    rng, arms = random.Random(seed), generator.arms(language)
    wanted = [(arm, number) for arm, last in lone_programs(language).items() for number in range(last)]
    if name == CHAINS:
        wanted = [(CHAINS, number) for number in range(whole_round(language))]
    elif name != ALONE:
        wanted = [(rng.choice(arms), rng.randrange(12, 99)) for _ in range(count)]
    for arm, number in wanted:
        with contextlib.suppress(NoProgram):
            yield generator.make(GeneratorRequest(language, arm, number, seed))


def _differs(wrong: Any, right: Any) -> bool:
    """Is it another result? A deed, or a gradient that is changed later, may be."""
    if wrong is None:
        return False
    if isinstance(wrong, Deed) or getattr(right, "requires_grad", False):
        return True
    return not np.array_equal(_numbers(wrong), _numbers(right), equal_nan=True)


def _numbers(value: Any) -> Array:
    array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else array_from_tensor(value.detach())
    return array.astype(np.complex128)


def _verdict(plant: Plant, opened: OpenedProgram, inputs: Arrays, native: Arrays) -> str:
    """What the oracle says of the program on this plant."""

    def wrong(call: Call) -> Any:
        made = plant.wrong(call)
        return None if isinstance(made, Deed) and plant.kind == "process" else made

    backend = planted_backend(Plant(plant.name, plant.language, plant.kind, plant.blames, wrong), sound=False)
    planted, judged = (OpenedProgram(opened.program, example=inputs, grad=opened.grad) for _ in range(2))
    run = backend.compile(planted, {})
    try:
        if plant.kind == "calls":
            run({name: np.flip(array) for name, array in inputs.items()})
        got = run(inputs)
    except Exception:  # a wrong result that the next operator does not take is an error of the compiler
        return "fail"
    trait = TargetTraits(calls_user_code=backend.mutates, positional=False, arithmetic=backend.arithmetic)
    batch = JudgeRequest((), backend.mutates, False, backend.arithmetic, explain=False)
    return str(judge_sample(judged, inputs, native, got, trait, batch).judgement)
