"""Write the program and the inputs of a bug as the parts of a script, in several ways from short to long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Protocol

from driftline.core.evidence import Fault
from driftline.core.tensors import Arrays
from driftline.programs.onnx.text import TextDetail
from driftline.report.export.subject import PLAIN, Subject
from driftline.report.scripts.calls import script_calls
from driftline.report.scripts.drift import DRAWN, with_drawn_inputs, with_listed_inputs
from driftline.report.scripts.later_call import later_call_recipe
from driftline.report.scripts.recipe import ROOM, Recipe
from driftline.report.scripts.recipe_onnx import onnx_recipe, with_literal_expectation
from driftline.report.scripts.recipe_torch import without_onednn
from driftline.report.scripts.render import make_recipe
from driftline.report.scripts.unwritten import with_filled_memory

_EAGER = "eager"  # the backend that is blamed for wrong results of torch's own kernels
_SEED = re.compile(r"(?:torch\.manual_seed|tf\.random\.set_seed|np\.random\.seed)\(\d+\)")
_DRAWING = re.compile(r"rand|normal|uniform|bernoulli")  # functions that make random inputs
_OWN_SEED = re.compile(r"np\.random\.default_rng\(\d+\)\.\w+")  # numbers that are the same each time


class Way(Protocol):
    """A function that writes a recipe. Tensors that exceed `room` are drawn from a seed."""

    def __call__(self, *, room: int) -> Recipe: ...


def recipes_of(subject: Subject) -> Iterator[Recipe]:
    """Yield recipes for the bug, the best first. The last recipes disable oneDNN in eager, for bugs that eager shares
    through oneDNN.
    """
    if subject.pooled:
        recipes = list(_pooled_recipes(subject))
    elif subject.after_another_call:
        recipes = list(_later_recipes(subject)) or list(_single_recipes(subject))
    else:
        recipes = [*_single_recipes(subject), *_later_recipes(subject)]
    if subject.evidence.fault is Fault.UNINITIALISED:
        recipes = [with_filled_memory(recipe) for recipe in recipes]
    if not subject.draws:
        recipes = [_without_seed(recipe) for recipe in recipes]
    plain = [without_onednn(recipe) for recipe in recipes if recipe.flavour == "torch"]
    if subject.blamed == _EAGER:  # a bug of eager itself shows without a compiler
        torch = [recipe for recipe in recipes if recipe.flavour == "torch"]
        yield from dict.fromkeys(without_onednn(replace(recipe, got=recipe.expected)) for recipe in torch)
    yield from dict.fromkeys((*recipes, *plain))


def _without_seed(recipe: Recipe) -> Recipe:
    """Remove seeds from the recipe, unless its inputs are drawn at random. Use for programs that draw no random
    numbers.
    """
    kept = [line for line in recipe.setup if not _SEED.fullmatch(line)]
    made = [*kept, *(recipe.definitions if any(line.startswith("function, inputs = ") for line in kept) else ())]
    drawn = any(_DRAWING.search(_OWN_SEED.sub("", line)) for line in made)
    return recipe if drawn else replace(recipe, setup=tuple(kept))


def _single_recipes(subject: Subject) -> Iterator[Recipe]:
    for make in _ways(subject, subject.arrays):
        recipe = make(room=ROOM)
        if not recipe.left_out:
            yield recipe


def _pooled_recipes(subject: Subject) -> Iterator[Recipe]:
    """Yield recipes for a bug that shows over many inputs together: with inputs drawn from a seed, then with the listed
    inputs.
    """
    samples = [list(_ways(subject, sample.arrays)) for sample in subject.case.samples]
    for ways in zip(*samples, strict=True):
        drawn = with_drawn_inputs(ways[0](room=DRAWN))
        listed = with_listed_inputs([make(room=ROOM // len(ways)) for make in ways])
        yield from (recipe for recipe in (drawn, listed) if recipe)


def _later_recipes(subject: Subject) -> Iterator[Recipe]:
    """Yield recipes that make earlier calls before the failing one: the call right before it, then all earlier calls.
    After an error the failing call may be unknown; each is tried.
    """
    case, options, samples = subject.case, subject.case.options, subject.case.samples
    program = subject.converted or case.program
    unknown = subject.after_another_call and not subject.evidence.sample
    for index in range(1, len(samples)) if unknown else [subject.evidence.sample or 0]:
        for start in sorted({0, max(0, index - 1)}, reverse=True) if 0 < index < len(samples) else ():
            calls = samples[start : index + 1]
            made = later_call_recipe(program, calls, subject.target, grad=options.grad, seed=options.seed)
            yield from [made] if made else []


def _ways(subject: Subject, arrays: Arrays) -> Iterator[Way]:
    case, target = subject.case, subject.target
    program, expected = case.program, {} if subject.pooled else subject.expected
    written_out = partial(make_recipe, grad=case.options.grad, seed=case.options.seed)
    if subject.converted:
        # The compiler's maintainers want the model, not the framework that it came from.
        for detail in TextDetail:
            model = partial(onnx_recipe, subject.converted, arrays, target, detail=detail)
            if expected:
                yield partial(_with_literals, model, expected)
            yield model
    if subject.rewritten and not subject.pooled:
        written = subject.rewritten
        yield partial(written_out, written.program, written.samples[0].arrays, target, own_inputs=True)
    for call in (*script_calls(target, program.framework),) or (None,):
        if program.form == "source" and not subject.pooled and _has_own_inputs(subject):
            yield partial(written_out, program, arrays, target, own_inputs=True, call=call)
        yield partial(written_out, program, arrays, target, call=call)
    if program.form != "onnx":
        return
    if expected:
        yield partial(_with_literals, partial(make_recipe, program, arrays, target), expected)
    for detail in (TextDetail.TYPES, TextDetail.EVERYTHING):
        yield partial(written_out, program, arrays, target, detail=detail)


def _with_literals(make: Way, expected: Arrays, *, room: int) -> Recipe:
    return with_literal_expectation(make(room=room), expected)


def _has_own_inputs(subject: Subject) -> bool:
    """True if the program's own code creates the failing inputs."""
    index = subject.evidence.sample or 0
    origin = subject.case.samples[index].origin
    return origin == "example" or (subject.reduction is not None and origin != PLAIN)
