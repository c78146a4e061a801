"""Edit a syntax tree, one change at a time or many at once."""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Replacement = ast.AST | list[ast.stmt] | None
NodeChange = Callable[[ast.AST], Replacement]
BLOCKS = ("body", "orelse", "finalbody")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Edit:
    """Replace one node, which is identified by its index in `ast.walk`."""

    at: int
    change: NodeChange


def edited(tree: ast.Module, edits: Sequence[Edit]) -> ast.Module:
    """Return a copy of the tree with the edits applied."""
    made = copy.deepcopy(tree)
    nodes = list(ast.walk(made))
    Edits({id(nodes[edit.at]): edit.change for edit in edits}).visit(made)
    return made


class Edits(ast.NodeTransformer):
    """Applies changes from the outermost node inwards. `changes`: by the id of a node."""

    def __init__(self, changes: dict[int, NodeChange]) -> None:
        self._changes = changes

    def visit(self, node: ast.AST) -> Replacement:
        change = self._changes.pop(id(node), None)
        if change is None:
            self.generic_visit(node)
            return node
        made = change(node)
        if isinstance(made, list):
            return [found for one in made for found in _listed(self.visit(one))]
        return self.visit(made) if made is not None else None


def _listed(made: Replacement) -> list[ast.stmt]:
    if isinstance(made, list):
        return made
    return [made] if isinstance(made, ast.stmt) else []


def written(tree: ast.Module) -> str | None:
    """Return the text of a tree, or None if it is not a valid program."""
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list) and not node.body and not isinstance(node, ast.Module):  # type: ignore[attr-defined]
            node.body.append(ast.Pass())  # type: ignore[attr-defined]
    try:
        text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        with warnings.catch_warnings(action="ignore"):  # such as: an int is not callable
            compile(text, "script.py", "exec")
    except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    return text


def names_loaded(tree: ast.AST) -> list[str]:
    """Return the names that are read, with repetitions."""
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]


def names_bound(tree: ast.AST) -> set[str]:
    """Return the names that are bound in any scope."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
    return bound
