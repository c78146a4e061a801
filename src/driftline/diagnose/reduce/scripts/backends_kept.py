"""Keep the backends of a script: its own backends stay unchanged, since a changed compiler has another fault. A target
is written into the script, so that it also fails without Driftline.
"""

from __future__ import annotations

import ast
import copy

from driftline.diagnose.reduce.scripts.callables import plain
from driftline.diagnose.reduce.scripts.edits import FUNCTIONS, names_loaded


def backends_of(tree: ast.Module) -> list[ast.stmt]:
    """Return the definitions that `backend=` names, and those that they use in turn."""
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
    """Return the definitions of the script's backends as normalised texts."""
    module = plain(copy.deepcopy(ast.Module(backends_of(tree), [])), ())
    return frozenset(map(ast.unparse, module.body))


_SAYS_HOW = ("backend", "mode", "options")


def on_backend(text: str, backend: str) -> str:
    """Return the script with the given backend in every compilation."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            node.decorator_list = [_called(one) for one in node.decorator_list]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _compiles(node):
            others = [one for one in node.keywords if one.arg not in _SAYS_HOW]
            node.keywords = [*others, ast.keyword("backend", ast.Constant(backend))]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _called(decorator: ast.expr) -> ast.expr:
    return ast.Call(decorator, [], []) if ast.unparse(decorator) == "torch.compile" else decorator


def _compiles(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return name == "torch.compile" or (any(one.arg in _SAYS_HOW for one in call.keywords) and name.endswith("compile"))
