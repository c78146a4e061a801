"""Describe the parts of a script that computes both results of a program: the expected one and the compiler's.

A recipe is made from a program (`recipe_source.py`, `recipe_onnx.py`) and written out by `render.py`, with an ending
that prints both results, or one that decides whether the bug shows (`script_check.py`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict

from driftline.core.script_call import ScriptCall
from driftline.programs.onnx.text import TextDetail

ROOM = 200_000  # characters that tensors may take in one script
INPUTS = "inputs = "  # how the statement begins that makes the inputs, where a recipe has one
_FROM = re.compile(r"from ([\w.]+) import (\w+(?:, \w+)*)")


class RecipeSettings(TypedDict, total=False):
    """Options of `make_recipe`."""

    own_inputs: bool  # the program's example inputs, if it has any, in place of the given arrays
    grad: bool  # the results include the gradients of inputs and weights
    seed: int
    room: int  # characters that tensors may take
    call: ScriptCall | None  # how the compiler is called; the first of the target's if there is none


class ModelSettings(RecipeSettings, total=False):
    """Options of `make_recipe`, with those that apply to ONNX models only."""

    detail: TextDetail  # of the model's text


@dataclass(frozen=True)
class Recipe:
    """Parts of a script, in the order in which they stand there."""

    flavour: str  # whose arrays the results are: torch or numpy
    packages: tuple[str, ...]  # packages that must be installed
    imports: tuple[str, ...]
    definitions: tuple[str, ...]  # blocks of text: functions, classes, constants
    setup: tuple[str, ...]  # statements that make the program and its inputs
    expected: str  # an expression
    got: str  # an expression; empty if the target has no short call
    left_out: tuple[str, ...] = ()  # tensors with stand-ins for their values
    inputs: str = "inputs"  # an expression for the tensors that go in
    files: tuple[str, ...] = ()  # files of this machine that the script reads, so that it does not run elsewhere
    own_process: bool = False  # of the compiler: that it dies is an exception of the script
    samples: bool = False  # there are many inputs, in a list of that name


@dataclass(frozen=True)
class Check:
    """The end of a script. `test` raises AssertionError, or whatever the compiler raises, when the bug shows."""

    imports: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()  # with EXPECTED and GOT for both expressions
    test: tuple[str, ...] = ()  # the same for a regression test
    problem: str = ""  # why there is no such check


def given_inputs(recipe: Recipe) -> str:
    """Return the expression for the inputs, or an empty string if the program's factory makes them."""
    return next((line.removeprefix(INPUTS) for line in recipe.setup if line.startswith(INPUTS)), "")


def import_block(lines: list[str]) -> str:
    """Import lines in the usual order: the standard library, a gap, the rest. One line for each module."""
    every = sorted(set(_joined(lines)), key=lambda line: (not line.startswith("import "), line))
    standard = [line for line in every if line.split()[1].partition(".")[0] in sys.stdlib_module_names]
    others = [line for line in every if line not in standard]
    return "\n".join([*standard, *([""] if standard and others else []), *others])


def _joined(lines: list[str]) -> list[str]:
    names: dict[str, set[str]] = {}
    for line in lines:
        if found := _FROM.fullmatch(line):
            names.setdefault(found[1], set()).update(found[2].split(", "))
    others = [line for line in lines if not _FROM.fullmatch(line)]
    return [*others, *(f"from {module} import {', '.join(sorted(taken))}" for module, taken in names.items())]


def odd_numbers(lines: Iterable[str]) -> list[str]:
    """Return the line that defines `nan` and `inf`, if the given lines use these names."""
    text = "\n".join(lines)
    used = [name for name in ("nan", "inf") if re.search(rf"(?<![\w.\"'-])-?{name}\b(?![\"'])", text)]
    values = ", ".join(f'float("{name}")' for name in used)
    return [f"{', '.join(used)} = {values}"] if used else []
