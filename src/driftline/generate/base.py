"""The interface of generators. A generator makes programs about a subject (an *arm*), the same ones for the same seed.

Generators run in workers, where they may import torch or onnx. Built-in generators use the same registry as those of
plug-ins (entry-point group `driftline.generators`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from driftline.core.tensors import Array
from driftline.generate.graph import Graph
from driftline.inputs.plan import InputPlan

FORMS = ("torch", "onnx", "jax", "tensorflow")  # the languages in which programs are written


class NoProgram(Exception):
    """The generator has no program for this request. This is not an error: the next number may have one."""

    name = ""  # name of the reason, for counting


@dataclass(frozen=True)
class Blueprint:
    """A generated program with its inputs, operators and other metadata."""

    form: str
    content: str | bytes  # Python text with a factory `program`, or a serialised ONNX model
    inputs: tuple[InputPlan, ...]
    operators: tuple[str, ...]  # in the vocabulary of the generator, for grouping and statistics
    coverage: tuple[tuple[str, str], ...]  # (operator, dtype of its first input), one for each use
    graph: Graph | None = None  # when it can be reduced as a graph
    grad: bool = False
    edges: tuple[float, ...] = ()  # where its operators change their behaviour
    sizes: tuple[Mapping[str, tuple[int, ...]], ...] = ()  # further shapes of the inputs, for a program compiled once
    example: Mapping[str, Array] = field(default_factory=dict)  # inputs that came with it


@dataclass(frozen=True)
class GeneratorRequest:
    """Asks for the `number`-th program of an arm under a seed. Equal requests give equal programs."""

    form: str
    arm: str
    number: int
    seed: int = 0
    avoid: frozenset[str] = frozenset()  # "operator dtype" that the target is known not to support
    base: Graph | None = None  # the graph to change, for generators that change one
    text: str = ""  # the text that a language model wrote
    mode: str = ""  # the task that the language model was given
    copy: bool = False  # its text is known: it is wanted on other sizes


class Generator:
    """Base class of all generators: lists its arms, and makes the program of a request."""

    name: ClassVar[str]
    forms: ClassVar[tuple[str, ...]] = FORMS
    needs_base: ClassVar[bool] = False  # changes a given graph instead of making one
    on_request: ClassVar[bool] = False  # hunts do without it unless it is named: it costs money, say
    needs_framework: ClassVar[bool] = True  # to say its arms, for which a worker is asked then
    slow_start: ClassVar[bool] = False  # its first program in a process takes seconds: a hunt begins without it

    def arms(self, form: str) -> Sequence[str]:
        """Return the subjects that programs can be requested for: operators, suites."""
        raise NotImplementedError

    def make(self, request: GeneratorRequest) -> Blueprint:
        """Return the requested program. Raises `NoProgram` if there is none."""
        raise NotImplementedError
