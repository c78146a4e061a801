"""Make Python text smaller: remove statements, replace calls by their arguments, simplify numbers.

This is for programs without a graph: TensorFlow, JAX, and torch programs that cannot be traced. A candidate may be
invalid, which running it shows.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.diagnose.reduce.order import ProgramSize, dtype_rank
from driftline.diagnose.reduce.plainer import smaller_sizes, taken
from driftline.diagnose.reduce.requests import TextCandidate
from driftline.diagnose.reduce.rounder import ROUNDER
from driftline.diagnose.reduce.values import Values, roughness
from driftline.programs.literals import Literals

_OPERATIONS = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)


@dataclass(frozen=True)
class ProgramText:
    """A program as text, with the values of its inputs (keys into `Values`)."""

    text: str
    entry: str
    inputs: Mapping[str, str]
    shapes: Mapping[str, tuple[str, tuple[int, ...], int]]  # dtype, shape and roughness of each input

    @cached_property
    def key(self) -> str:
        held = repr(sorted(self.inputs.items()))
        return hashlib.sha256(f"{self.entry}\n{self.text}\n{held}".encode()).hexdigest()

    @property
    def program(self) -> str:
        """The same as `key`: the numbers are part of the text, so different texts are different programs."""
        return self.key

    @property
    def lines(self) -> list[str]:
        return [*self.text.splitlines(), *(f"{name} {data}" for name, data in self.inputs.items())]

    @cached_property
    def operators(self) -> list[str]:
        """The calls and arithmetic outside the factory and the constructors of modules."""
        tree = ast.parse(self.text)
        skipped = {self.entry, "__init__"}
        found = []
        for node in _walk_but(tree, skipped):
            if isinstance(node, ast.Call):
                found.append(ast.unparse(node.func).rpartition(".")[2])
            elif isinstance(node, (ast.BinOp, ast.UnaryOp)):
                found.append(type(node.op).__name__.lower())
            elif isinstance(node, ast.Compare):
                found.append(type(node.ops[0]).__name__.lower())
        return found

    @cached_property
    def size(self) -> ProgramSize:
        return ProgramSize(
            operators=len(self.operators),
            ends=len(self.inputs),
            elements=sum(prod(shape) for _, shape, _ in self.shapes.values()),
            axes=sum(len(shape) for _, shape, _ in self.shapes.values()),
            dtypes=sum(dtype_rank(dtype) for dtype, _, _ in self.shapes.values()),
            attributes=len(self.text),
            layouts=0,
            values=sum(rough for _, _, rough in self.shapes.values()),
        )

    def to_request(self) -> TextCandidate:
        return TextCandidate(self.text, self.inputs, tuple(self.operators))


def _walk_but(tree: ast.AST, skipped: set[str]) -> Iterator[ast.AST]:
    """Yield the nodes inside functions, except functions named in `skipped`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name not in skipped:
                for statement in node.body:
                    yield from ast.walk(statement)
        elif isinstance(node, ast.Lambda):
            yield from ast.walk(node.body)
        else:
            yield from _walk_but(node, skipped)
    if isinstance(tree, ast.Module):  # a factory may hold the program itself, as a lambda
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in skipped:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Lambda):
                        yield from ast.walk(inner.body)


def plain_text(text: str) -> str:
    """Return the text without comments and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]):
            del body[0]
            if not body and not isinstance(node, ast.Module):
                body.append(ast.Pass())
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def fewer_statements(program: ProgramText) -> Iterator[ProgramText]:
    """Yield programs with some statements removed, long runs first."""
    tree = ast.parse(program.text)
    count = len(_statements(tree))
    width = count
    while width:
        for start in range(0, count, width):
            changed = copy.deepcopy(tree)
            for body, at in reversed(_statements(changed)[start : start + width]):
                if at < len(body):
                    del body[at]
                    if not body:
                        body.append(ast.Pass())
            yield from _written(program, changed)
        width //= 2


def _statements(tree: ast.Module) -> list[tuple[list[ast.stmt], int]]:
    """Return every statement by its block and index, in order within a block, so that they can be deleted from the
    end.
    """
    found = []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                found += [(body, at) for at in range(len(body))]
    return found


def smaller_expressions(program: ProgramText) -> Iterator[ProgramText]:
    """Yield programs with an operation replaced by an operand, an argument removed, or a number simplified."""
    tree = ast.parse(program.text)
    for at, place in enumerate(_expressions(tree, program.entry)):
        for choice in range(len(_choices(place))):
            changed = copy.deepcopy(tree)
            target = _expressions(changed, program.entry)[at]
            yield from _written(program, _Replace(target, _choices(target)[choice]).visit(changed))


def _expressions(tree: ast.Module, entry: str) -> list[ast.AST]:
    """Return the expressions that may be made smaller: all except those of the factory itself, which create the
    inputs.
    """
    kinds = (*_OPERATIONS, ast.Constant, ast.Tuple, ast.List)
    factory = _factory(tree, entry)
    own = {id(node) for node in ast.walk(factory)} if factory else set()
    for node in ast.walk(factory) if factory else ():
        if isinstance(node, ast.Lambda):  # the program itself
            own -= {id(part) for part in ast.walk(node.body)}
    return [node for node in ast.walk(tree) if isinstance(node, kinds) and id(node) not in own]


def _factory(tree: ast.Module, entry: str) -> ast.FunctionDef | None:
    return next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == entry), None)


def _choices(node: ast.AST) -> list[ast.expr]:
    """List the smaller expressions that can replace an expression."""
    match node:
        case ast.Call():
            return _smaller_calls(node)
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=part) | ast.Compare(left=part) | ast.Subscript(value=part):
            return [part]
        case ast.Tuple(elts=elements) | ast.List(elts=elements) if len(elements) > 1:
            return [type(node)([e for e in elements if e is not left], node.ctx) for left in elements]
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return [ast.Constant(v) for v in (0, 1, 2) if v < abs(number)]
    return []


def _smaller_calls(node: ast.Call) -> list[ast.expr]:
    """List the arguments of a call, the value whose method is called, and the call with one argument fewer."""
    given = [a for a in node.args if not isinstance(a, ast.Starred)] + [k.value for k in node.keywords]
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, (ast.Call, ast.BinOp, ast.Subscript)):
        given.append(node.func.value)
    fewer = [ast.Call(node.func, node.args, [k for k in node.keywords if k is not left]) for left in node.keywords]
    return [*given, *fewer, *([ast.Call(node.func, node.args[:-1], node.keywords)] if len(node.args) > 1 else [])]


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else super().generic_visit(node)


def _written(program: ProgramText, tree: ast.AST) -> Iterator[ProgramText]:
    try:
        text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        compile(text, "program.py", "exec")
    except (SyntaxError, ValueError, TypeError):
        return
    if f"def {program.entry}" in text or f"{program.entry} =" in text:
        yield replace(program, text=text)


def with_inputs(program: ProgramText, values: Values) -> ProgramText:
    """Return the program with the numbers of its inputs written into the factory, if they are few enough."""
    tree = ast.parse(program.text)
    factory = _factory(tree, program.entry)
    given = factory.body[-1] if factory else None
    if not isinstance(given, ast.Return) or not isinstance(given.value, ast.Tuple) or len(given.value.elts) != 2:
        return program
    place = given.value.elts[1]
    if not isinstance(place, (ast.Tuple, ast.List)) or len(place.elts) != len(program.inputs):
        return program
    literals = Literals("numpy", 0)
    written = [literals.expression(name, values.load(data)[0]) for name, data in program.inputs.items()]
    if literals.left_out or any("ml_dtypes" in text for text in written):
        return program
    named = re.compile(r"\b(nan|inf)\b")
    place.elts = [ast.parse(named.sub(r"np.\1", text), mode="eval").body for text in written]
    if not re.search(r"^import numpy as np$", program.text, re.MULTILINE):
        tree.body.insert(0, ast.Import([ast.alias("numpy", "np")]))
    return next(_written(program, tree), program)


def plainer_inputs(program: ProgramText, values: Values) -> Iterator[ProgramText]:
    """Yield programs with smaller inputs, then with rounder numbers."""
    for name in program.inputs:
        for axis, size in enumerate(program.shapes[name][1]):
            for smaller in smaller_sizes(size):
                yield _with_input(program, name, partial(taken, axis=axis, size=smaller), values)
    for name in program.inputs:
        for change in ROUNDER:
            yield _with_input(program, name, change, values)


def _with_input(program: ProgramText, name: str, change: Callable[[Array], Array], values: Values) -> ProgramText:
    with np.errstate(all="ignore"):
        arrays = [np.asarray(change(array), order="C") for array in values.load(program.inputs[name])]
    kind = (arrays[0].dtype.name, tuple(arrays[0].shape), roughness(arrays))
    inputs = {**program.inputs, name: values.save(arrays)}
    return with_inputs(replace(program, inputs=inputs, shapes={**program.shapes, name: kind}), values)
