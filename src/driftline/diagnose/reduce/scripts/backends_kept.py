"""The script's own backends of `torch.compile` stay as they are: a compiler that is changed has another fault."""

from __future__ import annotations

import ast
import copy

from driftline.diagnose.reduce.scripts.callables import plain
from driftline.diagnose.reduce.scripts.edits import FUNCTIONS, names_loaded


def backends_of(tree: ast.Module) -> list[ast.stmt]:
    """The definitions that `backend=` names, and those that they name in turn."""
    wanted = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "backend"
        for name in names_loaded(keyword.value)
    }
    found: list[ast.stmt] = []
    while more := [node for node in tree.body if _defines(node, wanted) and node not in found]:
        found += more
        wanted |= {name for node in more for name in names_loaded(node)}
    return found


def _defines(node: ast.stmt, names: set[str]) -> bool:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return node.name in names
    return isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id in names for one in node.targets)


def backend_texts(tree: ast.Module) -> frozenset[str]:
    """The backends as plain texts."""
    module = plain(copy.deepcopy(ast.Module(backends_of(tree), [])), ())
    return frozenset(map(ast.unparse, module.body))
