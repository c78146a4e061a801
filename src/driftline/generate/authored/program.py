"""Run a language model's program in eager mode before it is used. Runs in a worker, since it executes the program."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from driftline.core.structure import flatten
from driftline.core.tensors import Shape, TensorSpec
from driftline.core.text import first_line
from driftline.generate.authored.bounds import OutOfTime, bounded
from driftline.generate.authored.factory import FACTORY, factory_text, with_inputs
from driftline.generate.authored.language import Language, is_inexact, language_of
from driftline.generate.authored.names import (
    COPY,
    DOES_NOT_RUN,
    ENDLESS,
    MEMORY,
    NO_MODEL,
    NO_TENSOR,
    NOT_PYTHON,
    RANDOM,
    Unusable,
)
from driftline.generate.authored.screen import screened
from driftline.generate.authored.sizes import other_shapes, varied_shapes
from driftline.generate.base import Blueprint
from driftline.inputs.plan import InputPlan
from driftline.programs.live import LiveProgram
from driftline.programs.operators import operators_in
from driftline.programs.source import seed_everything

_Made = TypeVar("_Made")
_NO_MEMORY = (
    "allocate memory",
    "not enough memory",
    "out of memory",
    "Out of memory",
    "bad_alloc",
    "Storage size calculation overflowed",
    "RESOURCE_EXHAUSTED",
    "OOM when allocating",
)


def make_program(text: str, form: str = "torch", *, other_sizes: random.Random | None = None) -> Blueprint:
    """Return the program in this text, with inputs of other sizes than its own if `other_sizes` is given. Raises
    `Unusable`."""
    language = language_of(form)
    made = _factory(text, form)
    operators = operators_in(made, FACTORY) or ("program",)
    live, inputs = _loaded(language, made)
    refused = _refused(language, live.function, inputs)
    found: list[Any] | None = None
    if refused:
        found = _fitting(language, live, inputs, refused, made) if _resizable(live) else None
        if found is None:
            raise refused
    if other_sizes:  # other than the sizes on which it ran before
        found = _resized(language, live, found or inputs, other_sizes) if _resizable(live) else None
        if found is None:
            raise Unusable(COPY, "it was known, and does not run on inputs of other sizes")
    evaluating = language.trains(live.function)
    if found or evaluating:
        given = [language.example(tensor) for tensor in found or ()]
        made = with_inputs(made, given, evaluating=evaluating, head=language.head)
        live, inputs = _loaded(language, made)
        if again := _refused(language, live.function, inputs):
            raise again
    if _outcome(language, live.function, inputs, 1) != _outcome(language, live.function, inputs, 2):
        raise Unusable(RANDOM, "it gives other numbers each time")
    return _blueprint(form, made, live, operators)


def _factory(text: str, form: str) -> str:
    try:
        return factory_text(screened(text, form), text)
    except RecursionError as error:
        raise Unusable(NOT_PYTHON, "it is nested too deep") from error


def _blueprint(form: str, text: str, live: LiveProgram, operators: tuple[str, ...]) -> Blueprint:
    examples = live.example_arrays()
    if not examples:
        raise Unusable(NO_TENSOR, f"{FACTORY}() returns no input that is a tensor")
    plans = tuple(
        InputPlan(
            TensorSpec(name, array.dtype.name, array.shape), "any" if is_inexact(array.dtype.name) else "like", array
        )
        for name, array in examples.items()
    )
    return Blueprint(
        form=form,
        content=text,
        inputs=plans,
        operators=operators,
        coverage=tuple((name, plans[0].spec.dtype) for name in operators),
        example=dict(examples),
    )


def _loaded(language: Language, text: str) -> tuple[LiveProgram, list[Any]]:
    """Execute the text and return the model and its inputs."""
    space: dict[str, Any] = {"__name__": "authored_program"}
    language.before_loading()
    seed_everything(0)

    def load() -> tuple[LiveProgram, list[Any]]:
        exec(compile(text, "<program>", "exec"), space)
        made = space[FACTORY]()
        if not isinstance(made, tuple) or len(made) != 2:
            raise Unusable(
                NO_MODEL, f"{FACTORY}() must return a model and a tuple of inputs, not {type(made).__name__}"
            )
        model, inputs = made
        if not callable(model):
            raise Unusable(
                NO_MODEL, f"{FACTORY}() must return something that can be called, not {type(model).__name__}"
            )
        inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        live = LiveProgram.bind(language.form, model, inputs)
        for name, leaf in flatten(live.arguments, "input").items():
            if language.is_tensor(leaf) and not language.is_ordinary(leaf):
                raise Unusable(DOES_NOT_RUN, f"the input {name} is no ordinary tensor on the CPU")
        return live, list(inputs)

    return _within_bounds(load)


def _refused(language: Language, model: Callable[..., Any], inputs: Sequence[Any]) -> Unusable | None:
    """Return why the model does not run in eager mode, or None if it runs. Faults that other sizes cannot fix are
    raised."""
    try:
        _outcome(language, model, inputs, 0)
    except Unusable as error:
        if error.name != DOES_NOT_RUN:
            raise
        return error
    return None


def _outcome(
    language: Language, model: Callable[..., Any], inputs: Sequence[Any], seed: int
) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Run the model and return everything it returns, in a form that can be compared. `seed` seeds random operators."""

    def call() -> list[tuple[str, tuple[int, ...], bytes]]:
        seed_everything(seed)
        found = list(flatten(language.call(model, inputs), "output").values())
        tensors = [leaf for leaf in found if language.is_tensor(leaf)]
        if not tensors:
            raise Unusable(NO_TENSOR, "the model returns no tensor")
        if len(tensors) < len(found) or not all(map(language.is_ordinary, tensors)):
            raise Unusable(NO_TENSOR, "the model returns something else than ordinary tensors")
        arrays = [language.array(tensor) for tensor in tensors]
        return [(array.dtype.name, array.shape, array.tobytes()) for array in arrays]

    return _within_bounds(call)


def _within_bounds(work: Callable[[], _Made]) -> _Made:
    """Run the program's code within limits. Every failure is raised as `Unusable`."""
    try:
        with warnings.catch_warnings(), bounded():
            warnings.simplefilter("ignore")
            return work()
    except Unusable:
        raise
    except OutOfTime as error:
        raise Unusable(ENDLESS, "it does not come to an end") from error
    except MemoryError as error:
        raise Unusable(MEMORY, "it takes too much memory") from error
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        said = first_line(str(error), 300)
        if any(words in str(error) for words in _NO_MEMORY):
            raise Unusable(MEMORY, said) from error
        raise Unusable(DOES_NOT_RUN, f"{type(error).__name__}: {said}") from error


# -- other sizes -------------------------------------------------------------------------------------------------------


def _resizable(live: LiveProgram) -> bool:
    return live.is_flat and live.positional


def _fitting(
    language: Language, live: LiveProgram, inputs: Sequence[Any], error: Unusable, text: str
) -> list[Any] | None:
    """Return inputs on which the model runs, with another number of inputs or other sizes; None if none are found."""
    fewest, most = live.parameters
    wanted = min(max(len(inputs), fewest), most)
    if inputs and len(inputs) != wanted:
        inputs = [*inputs, *[inputs[-1]] * (wanted - len(inputs))][:wanted]
        if not (again := _refused(language, live.function, inputs)):
            return list(inputs)
        error = again
    return _first_that_runs(language, live, inputs, other_shapes(_shapes(inputs), error.detail, text))


def _resized(language: Language, live: LiveProgram, inputs: Sequence[Any], rng: random.Random) -> list[Any] | None:
    return _first_that_runs(language, live, inputs, varied_shapes(_shapes(inputs), rng))


def _shapes(inputs: Sequence[Any]) -> list[Shape]:
    return [tuple(tensor.shape) for tensor in inputs]


def _first_that_runs(
    language: Language, live: LiveProgram, inputs: Sequence[Any], candidates: Iterable[Sequence[Shape]]
) -> list[Any] | None:
    """Return inputs of the first of these sizes on which the model runs, or None."""
    for shapes in candidates:
        resized = [language.resized(tensor, shape) for tensor, shape in zip(inputs, shapes, strict=True)]
        try:
            _outcome(language, live.function, resized, 0)
        except Unusable as other:
            if other.name != DOES_NOT_RUN:
                return None
            continue
        return resized
    return None
