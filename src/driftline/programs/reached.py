"""Finds the part of a Python file that one of its functions reaches, directly or through other definitions.

A file of a user may hold many programs. Titles, causes and exported scripts are about one of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_DYNAMIC = re.compile(r"(?<![.\w])(?:globals|locals|vars|eval|exec|__import__|import_module)\(|sys\.modules")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Scope = dict[str, list[ast.stmt]]  # the statements that bind a name


@dataclass(frozen=True)
class ReachedCode:
    """The code that runs when the model of a factory is called."""

    definitions: tuple[Definition, ...]  # of the file and of the factory, in the order of the text
    lambdas: tuple[ast.Lambda, ...]  # that the factory returns or keeps in a variable
    made: tuple[ast.expr, ...]  # the expressions that make the model


def reached_code(tree: ast.Module, factory_name: str) -> ReachedCode:
    """Return the functions, classes and lambdas that a factory's model uses, without those that only make inputs.
    Without such a factory: all functions and classes of the file."""
    entry = next((node for node in tree.body if factory_name in _bound(node)), None)
    if entry is None:
        return ReachedCode(tuple(node for node in tree.body if isinstance(node, _DEFINITIONS)), (), ())
    own = _scope(_statements(entry)) if isinstance(entry, ast.FunctionDef) else {}
    made = _models(entry) if isinstance(entry, ast.FunctionDef) else [entry]
    reached = _reached(made, own, _scope(node for node in tree.body if node is not entry))
    found = sorted((node for node in reached if isinstance(node, _DEFINITIONS)), key=lambda node: node.lineno)
    kept = [node for node in (*made, *reached) if not isinstance(node, _DEFINITIONS)]
    lambdas = {inner for node in kept for inner in ast.walk(node) if isinstance(inner, ast.Lambda)}
    return ReachedCode(tuple(found), tuple(sorted(lambdas, key=_place)), tuple(_values(made, own)))


def reached_statements(tree: ast.Module, text: str, name: str) -> list[ast.stmt]:
    """Return the statements of a file without the definitions and constants that the entry `name` does not reach.
    Statements that bind no name are kept, since they may have effects on others."""
    entry = next((node for node in tree.body if name in _bound(node)), None)
    if entry is None or _DYNAMIC.search(text):
        return list(tree.body)
    kept = [node for node in tree.body if node is entry or _has_effects(node)]
    scope = _scope(node for node in tree.body if node is not entry)
    wanted = {id(node) for node in (*kept, *_reached(kept, {}, scope))}
    return [node for node in tree.body if id(node) in wanted or isinstance(node, (ast.Import, ast.ImportFrom))]


def reached_text(text: str, name: str) -> str:
    """Return the text of a file without the lines that its entry `name` does not reach."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    kept = reached_statements(tree, text, name)
    lines = text.splitlines()
    stay = {number for node in kept for number in _lines_of(node)}
    gone = {number for node in tree.body if node not in kept for number in _lines_of(node)} - stay
    if not gone:
        return text
    for number in sorted(gone):  # with the comments above
        above = number - 1
        while above and above not in gone | stay and lines[above - 1].startswith("#"):
            gone.add(above)
            above -= 1
    kept_lines: list[str] = []
    last_is_gone = False
    for number, line in enumerate(lines, 1):
        last_is_gone = number in gone or (last_is_gone and not line.strip())
        if not last_is_gone:
            kept_lines.append(line)
    return "\n".join(kept_lines).strip("\n")


def _reached(start: Iterable[ast.AST], own: _Scope, file: _Scope) -> list[ast.stmt]:
    """Return the statements that bind names used in `start`, and those that bind names used in these, and so on."""
    found: dict[int, ast.stmt] = {}
    waiting = list(start)
    while waiting:
        for name in _names(waiting.pop()):
            for statement in own.get(name) or file.get(name, []):
                if id(statement) not in found:
                    found[id(statement)] = statement
                    waiting.append(statement)
    return list(found.values())


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that code reads, including custom operators called as `torch.ops...`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute) and ast.unparse(inner).startswith("torch.ops."):
            yield inner.attr


def _scope(statements: Iterable[ast.stmt]) -> _Scope:
    scope: _Scope = {}
    for statement in statements:
        for name in _bound(statement):
            scope.setdefault(name, []).append(statement)
    return scope


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds or changes: x of `x = 1`, of `x[0] = 1`."""
    if isinstance(statement, _DEFINITIONS):
        return {statement.name}
    found = {node.name for node in ast.walk(statement) if isinstance(node, _DEFINITIONS)}
    targets: list[ast.expr] = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For)):
            targets.append(node.target)
        elif isinstance(node, ast.withitem) and node.optional_vars:
            targets.append(node.optional_vars)
    written = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return found | written


def _has_effects(statement: ast.stmt) -> bool:
    """True for a call that stands alone, or a decorated definition, which the decorator may register."""
    if isinstance(statement, _DEFINITIONS):
        return bool(statement.decorator_list)
    main = isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
    return not main and not _bound(statement) and not isinstance(statement, (ast.Import, ast.ImportFrom))


def _statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """Yield the statements of a function, including those in branches and loops, without nested functions."""
    waiting: list[ast.stmt] = list(function.body)
    while waiting:
        statement = waiting.pop(0)
        yield statement
        if not isinstance(statement, _DEFINITIONS):
            waiting += [inner for inner in ast.iter_child_nodes(statement) if isinstance(inner, ast.stmt)]


def _models(factory: ast.FunctionDef) -> list[ast.AST]:
    """Return the expressions of the model that a factory returns, or the factory itself if its text does not tell."""
    returned = [node.value for node in _statements(factory) if isinstance(node, ast.Return) and node.value]
    models = [value.elts[0] for value in returned if isinstance(value, ast.Tuple) and value.elts]
    return [*models] if len(models) == len(returned) and models else [factory]


def _values(made: Sequence[ast.AST], own: _Scope) -> Iterator[ast.expr]:
    """Yield the expressions that make a model; for a variable, the expressions assigned to it."""
    for node in made:
        given = own.get(node.id, []) if isinstance(node, ast.Name) else []
        values = [one.value for one in given if isinstance(one, ast.Assign)]
        yield from values or ([node] if isinstance(node, ast.expr) else [])


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _lines_of(node: ast.stmt) -> range:
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    first = min([node.lineno, *(one.lineno for one in decorators)])
    return range(first, (node.end_lineno or node.lineno) + 1)
