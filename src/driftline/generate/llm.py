"""The generator `llm`: programs that a language model wrote, changed or sketched, each aimed at one rewrite rule.

The main process queries the model (`campaign/authoring/author.py`): it has network access and the API key, and runs
none of the code. A worker, which has neither, makes a program from the answer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

from driftline.generate.base import Blueprint, Generator, GeneratorRequest, NoProgram

CHANGE, WRITE, SKETCH = "change", "write", "sketch"
MODES = (CHANGE, WRITE, SKETCH)


class ModelPrograms(Generator):
    """Arms are rules of the target's compiler, which only the hunt knows."""

    name = "llm"
    forms: ClassVar[tuple[str, ...]] = ("torch", "jax", "tensorflow")
    on_request = True

    def arms(self, form: str) -> Sequence[str]:
        return ()

    def make(self, request: GeneratorRequest) -> Blueprint:
        if not request.text:
            raise NoProgram("no model has written it")
        if request.mode == SKETCH:
            from driftline.generate.authored.sketch import make_sketch

            return make_sketch(request)
        from driftline.generate.authored.program import make_program

        other = random.Random(f"{request.seed}/{request.arm}/{request.number}") if request.copy else None
        return make_program(request.text, request.form, other_sizes=other)
