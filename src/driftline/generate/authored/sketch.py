"""Turn a list of operators that a language model chose into a valid program. The operator table determines the
types."""

from __future__ import annotations

from driftline.core.text import did_you_mean
from driftline.generate.authored.names import NO_OPERATORS, Unusable
from driftline.generate.base import Blueprint, GeneratorRequest, NoProgram
from driftline.generate.blueprint import LANGUAGE, blueprint
from driftline.generate.random_graph import graph_of
from driftline.generate.table import OPERATORS
from driftline.llm.answers import names_in

LONGEST = 10


def operator_names(form: str) -> list[str]:
    """Return the operators that a sketch may name."""
    return [name for name, operator in OPERATORS.items() if operator.form(LANGUAGE[form])]


def make_sketch(request: GeneratorRequest) -> Blueprint:
    """Return the program of a sketch. Raises `Unusable` if it names no operator."""
    known = set(operator_names(request.form))
    named = names_in(request.text)
    chosen = [name for name in named if name in known][:LONGEST]
    if not chosen:
        words = next((f" for {word}:{hint}" for word in named if (hint := did_you_mean(word, known))), "")
        raise Unusable(NO_OPERATORS, f"none of the words is an operator{words}")
    try:
        graph = graph_of(chosen, request)
    except NoProgram as reason:
        raise Unusable(NO_OPERATORS, str(reason)) from reason
    return blueprint(graph, request.form)
