"""The generator `idioms`: models in the shapes that rewrite rules look for, unchanged or with one change.

An arm is `relu_clip`, or `relu_clip~float64` with a change; `optests:Clip~float64` changes a program of another
generator.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from driftline.generate.base import Blueprint, Generator, GeneratorRequest, NoProgram
from driftline.generate.changes import CHANGES
from driftline.generate.changes.model import settled
from driftline.generate.idioms.sketch import IDIOMS, Sketch
from driftline.generate.model_blueprint import blueprint_of_model

_FAMILIES = (
    "attention", "broadcast", "control", "convolution", "linear", "movement", "normalisation", "pointwise", "quantised",
)  # fmt: skip
_TRIES = 12  # a change may make a model invalid; another of the same kind may not


def idioms() -> list[str]:
    """Return the names of all idioms."""
    for family in _FAMILIES:
        importlib.import_module(f"driftline.generate.idioms.{family}")
    return sorted(IDIOMS)


class Idioms(Generator):
    name = "idioms"
    needs_framework = False
    forms: ClassVar[tuple[str, ...]] = ("onnx",)

    def arms(self, form: str) -> Sequence[str]:
        return idioms()

    def make(self, request: GeneratorRequest) -> Blueprint:
        base, _, change = request.arm.partition("~")
        rng = random.Random(f"{request.arm}/{request.seed}/{request.number}")
        made = self._base(base, request)
        return changed(made, change, rng, types=_typed(request.number)) if change else made

    def _base(self, base: str, request: GeneratorRequest) -> Blueprint:
        generator, colon, arm = base.partition(":")
        if colon:
            from driftline.generate import GENERATORS

            return GENERATORS.get(generator).make(replace(request, arm=arm))
        known = idioms()
        if base not in known:
            raise NoProgram(f"there is no idiom {base}")
        if not request.number % 2:
            return _drawn(base, request)
        try:  # some rules want their last node to be followed by another
            return _drawn(base, request, last="Abs")
        except NoProgram:  # it gives truth values
            return _drawn(base, request, last="Not")


def _drawn(base: str, request: GeneratorRequest, last: str = "") -> Blueprint:
    rng = random.Random(f"{base}/{request.seed}/{request.number}")
    sketch = Sketch(rng, preceded=request.number % 4 >= 2)
    drawn = IDIOMS[base](sketch)
    outputs = [drawn] if isinstance(drawn, str) else list(drawn)
    if last:
        outputs = [sketch.node(last, output) for output in outputs]
    return blueprint_of_model(settled(sketch.model(outputs), types=_typed(request.number)), sketch.plans)


def _typed(number: int) -> bool:
    """True if the model declares the types of all its values, as exporters do. This is optional in ONNX."""
    return bool(number % 2)


def changed(made: Blueprint, change: str, rng: random.Random, *, types: bool = False) -> Blueprint:
    """Return the program with one change of the given kind. Raises `NoProgram` if every try makes it invalid."""
    import onnx

    reason = NoProgram(f"{change!r} does not apply")
    for _ in range(_TRIES):
        assert isinstance(made.content, bytes)
        model = onnx.load_model_from_string(made.content)
        try:
            CHANGES[change](model, rng)
            model = settled(model, types=types)
        except NoProgram as error:
            reason = error
            continue
        if model.SerializeToString(deterministic=True) != made.content:
            return blueprint_of_model(model, made.inputs)
    raise reason
