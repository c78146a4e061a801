"""Finds the operators on the way to one output of a program, leaving out those that feed only other outputs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from driftline.programs.operators import operator_names
from driftline.programs.reached import reached_code


def operators_to_output(graph: Any, output: str) -> list[str]:
    """Return, in order, the operators of an ONNX graph on the way to an output; all if it has no such output."""
    wanted = {output}
    kept: list[str] = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(name for name in (*node.input, *_outer_names(node)) if name)
            kept.append(node.op_type)
    return kept[::-1] or [node.op_type for node in graph.node]


def _outer_names(node: Any) -> Iterable[str]:
    """Yield the names that inner graphs of a node (bodies of loops and branches) read."""
    bodies = [one for attribute in node.attribute for one in (attribute.g, *attribute.graphs)]
    for inner in (inner for body in bodies for inner in body.node):
        yield from inner.input
        yield from _outer_names(inner)


def written_to_output(text: str, factory_name: str, output: str) -> tuple[str, ...]:
    """Return the operators that the text of a program applies on the way to one of its outputs. Empty unless the
    program is one function that only assigns names, returns some of them, and modifies no tensor."""
    functions = [
        node
        for reached in reached_code(ast.parse(text), factory_name).definitions
        for node in ast.walk(reached)
        if isinstance(node, ast.FunctionDef) and node.name not in (factory_name, "__init__")
    ]
    if len(functions) != 1:
        return ()
    *steps, last = functions[0].body
    if not isinstance(last, ast.Return) or last.value is None or not all(map(_is_plain, steps)):
        return ()
    results = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
    number = int(output) if output.isdigit() else 0
    if number >= len(results):
        return ()
    return tuple(_on_the_way(steps, results[number]))


def _is_plain(step: ast.stmt) -> bool:
    """True if a statement only assigns results to names and modifies no tensor."""
    if not isinstance(step, ast.Assign) or len(step.targets) != 1:
        return False
    named = [step.targets[0]] if isinstance(step.targets[0], ast.Name) else getattr(step.targets[0], "elts", [])
    calls = [node.func for node in ast.walk(step.value) if isinstance(node, ast.Call)]
    in_place = any(isinstance(call, ast.Attribute) and call.attr.endswith("_") for call in calls)
    return bool(named) and all(isinstance(name, ast.Name) for name in named) and not in_place


def _on_the_way(steps: Sequence[ast.stmt], result: ast.expr) -> Iterable[str]:
    wanted, kept = _names(result), [result]
    for step in reversed(steps):
        assert isinstance(step, ast.Assign)
        given = _names(step.targets[0])
        if wanted & given:
            wanted = (wanted - given) | _names(step.value)
            kept.append(step.value)
    return dict.fromkeys(name for value in reversed(kept) for name in operator_names(value))


def _names(value: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
