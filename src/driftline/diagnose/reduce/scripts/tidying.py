"""Remove unused and invalid statements of a script after every change."""

from __future__ import annotations

import ast
import builtins
import sys

from driftline.diagnose.reduce.scripts.edits import BLOCKS, FUNCTIONS, names_bound, names_loaded

_KNOWN = {*dir(builtins), "__name__", "__file__", "__class__"}
_PURE = (
    ast.Constant, ast.Name, ast.Attribute, ast.Lambda, ast.Tuple, ast.List, ast.Dict, ast.UnaryOp, ast.BinOp,
    ast.Subscript, ast.ListComp, ast.GeneratorExp,
)  # fmt: skip
_LIBRARIES = {"torch", "numpy", "math", *sys.stdlib_module_names}
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Assert, ast.Delete, ast.Raise)


def tidy(tree: ast.Module) -> None:
    """Remove statements that read undefined names, then definitions that are never read. Changes the tree in place."""
    while _drop(tree, _Homeless(tree)) or _drop(tree, _Unused(tree)):
        pass


class _Homeless:
    """Selects statements that read a name which nothing defines."""

    def __init__(self, tree: ast.Module) -> None:
        self._known = names_bound(tree) | _KNOWN

    def __call__(self, statement: ast.stmt) -> bool:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return False
        if isinstance(statement, _SIMPLE):
            return any(name not in self._known for name in names_loaded(statement))
        heads = [getattr(statement, name, None) for name in ("test", "iter")]
        return any(name not in self._known for head in heads if head for name in names_loaded(head))


class _Unused:
    """Selects definitions, imports and plain assignments of names that nothing reads."""

    def __init__(self, tree: ast.Module) -> None:
        self._read = set(names_loaded(tree))
        self._shared = {
            name for node in ast.walk(tree) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
        }
        self._own: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self._own |= {id(inside) for inside in node.body}

    def __call__(self, statement: ast.stmt) -> bool:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            statement.names = [one for one in statement.names if _bound_by(one) in self._read or _acts(statement, one)]
            return not statement.names
        if id(statement) in self._own:
            return False
        if isinstance(statement, ast.Expr):
            return isinstance(statement.value, (ast.Constant, ast.Name))
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return statement.name not in self._read
        if isinstance(statement, ast.Assign) and all(isinstance(one, ast.Name) for one in statement.targets):
            names = {one.id for one in statement.targets if isinstance(one, ast.Name)}
            return not names & (self._read | self._shared) and _is_pure(statement.value)
        return False


def _acts(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    """True if importing the module may have an effect that the script needs, such as a registration; assumed for
    modules of the user.
    """
    name = alias.name if isinstance(statement, ast.Import) else statement.module or ""
    return name.partition(".")[0] not in _LIBRARIES


def _bound_by(alias: ast.alias) -> str:
    return (alias.asname or alias.name).partition(".")[0]


def _is_pure(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):  # a function of torch that makes or computes a tensor
        name = ast.unparse(value.func)
        return name.startswith(("torch.", "range")) and "manual_seed" not in name and all(map(_is_pure, value.args))
    return isinstance(value, _PURE)


def _drop(tree: ast.Module, is_needless: _Homeless | _Unused) -> bool:
    """Remove the statements that `is_needless` selects. True if there were any."""
    dropped = False
    for node in ast.walk(tree):
        for name in BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                kept = [one for one in block if not is_needless(one)]
                dropped |= len(kept) < len(block)
                block[:] = kept
    return dropped
