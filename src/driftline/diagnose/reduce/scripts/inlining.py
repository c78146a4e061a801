"""Replace a variable by its value, and a call by the body of the function."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

from driftline.diagnose.reduce.scripts.edits import BLOCKS, FUNCTIONS, Edits, names_bound, names_loaded
from driftline.diagnose.reduce.scripts.observed import Observed

MOST_COPIES = 4  # of a value that has several uses
_HEADS = ("value", "test", "iter", "items", "targets", "target", "exc", "msg")  # of a statement, before its blocks


def inlined_variables(tree: ast.Module) -> Iterator[ast.Module]:
    """Yield scripts in which one variable is replaced by its value, up to the next assignment."""
    count = len(list(_assignments(tree)))
    for at in reversed(range(count)):
        made = copy.deepcopy(tree)
        block, place, name = list(_assignments(made))[at]
        if _inline(block, place, name):
            yield made


def _assignments(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], int, str]]:
    """Yield assignments of one variable, and functions that are a single expression: the block, the index in it, the
    name.
    """
    for node in ast.walk(tree):
        for field in BLOCKS:
            block = getattr(node, field, None)
            if not isinstance(block, list) or isinstance(node, ast.ClassDef):
                continue
            for place, one in enumerate(block):
                if isinstance(one, ast.Assign) and len(one.targets) == 1 and isinstance(one.targets[0], ast.Name):
                    yield block, place, one.targets[0].id
                elif isinstance(one, ast.FunctionDef) and _lambda(one):
                    yield block, place, one.name


def _lambda(function: ast.FunctionDef) -> ast.expr | None:
    """Return a function as a lambda expression with its decorators as calls, or None if it is more than one
    expression.
    """
    last = function.body[-1]
    if len(function.body) != 1 or not isinstance(last, (ast.Return, ast.Expr, ast.Pass)):
        return None
    body = last.value if not isinstance(last, ast.Pass) and last.value else ast.Constant(None)
    made: ast.expr = ast.Lambda(function.args, body)
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    for decorator in reversed(function.decorator_list):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "torch.compile":
            made = ast.Call(decorator.func, [made], decorator.keywords)
        else:
            made = ast.Call(decorator, [made], [])
    return made


def _inline(block: list[ast.stmt], place: int, name: str) -> bool:
    one = block[place]
    value = one.value if isinstance(one, ast.Assign) else _lambda(one)  # type: ignore[arg-type]
    if value is None or name in names_loaded(value):
        return False
    uses = 0
    for later in block[place + 1 :]:
        stores = isinstance(later, ast.Assign) and name in {
            node.id for target in later.targets for node in ast.walk(target) if isinstance(node, ast.Name)
        }
        found = [node for node in ast.walk(later) if isinstance(node, ast.Name) and node.id == name]
        loads = [node for node in found if isinstance(node.ctx, ast.Load)]
        uses += len(loads)
        Edits({id(node): lambda node: copy.deepcopy(value) for node in loads}).visit(later)
        if stores or len(loads) < len(found):
            break
    if not 0 < uses <= MOST_COPIES:
        return False
    del block[place]
    return True


@dataclass(frozen=True)
class _Callee:
    """A function of the script, and where it is defined."""

    node: ast.FunctionDef
    of_class: bool
    parent: ast.AST


def inlined_calls(tree: ast.Module, observed: Observed) -> Iterator[ast.Module]:
    """Yield scripts in which one call is replaced by the body of the function."""
    for at, node in enumerate(ast.walk(tree)):
        if not isinstance(node, ast.Call):
            continue
        name = observed.functions.get(ast.unparse(node.func)) or ast.unparse(node.func)
        if name not in _callees(tree):
            continue
        for removed in (True, False):
            made = copy.deepcopy(tree)
            call = list(ast.walk(made))[at]
            assert isinstance(call, ast.Call)
            callee = _callees(made)[name]
            if not _CallInlining(made, call, callee).done():
                break
            if removed:
                callee.parent.body.remove(callee.node)  # type: ignore[attr-defined]
            yield made


def _callees(tree: ast.Module) -> dict[str, _Callee]:
    """Return the functions of a script by their qualified names."""
    found: dict[str, _Callee] = {}

    def look(node: ast.AST, before: str) -> None:
        for one in ast.iter_child_nodes(node):
            if isinstance(one, ast.FunctionDef):
                found[before + one.name] = _Callee(one, isinstance(node, ast.ClassDef), node)
                look(one, f"{before}{one.name}.<locals>.")
            elif isinstance(one, ast.ClassDef):
                look(one, f"{before}{one.name}.")
            elif isinstance(one, ast.stmt):
                look(one, before)

    look(tree, "")
    return found


class _CallInlining:
    """Replaces one call by the body of the function. Changes the tree in place."""

    def __init__(self, tree: ast.Module, call: ast.Call, callee: _Callee) -> None:
        self._tree = tree
        self._call = call
        self._function = copy.deepcopy(callee.node)
        self._of_class = callee.of_class

    def done(self) -> bool:
        """Replace the call. Return False if that is impossible."""
        given = self._bindings()
        if given is None or any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(self._function)):
            return False
        self._rename(given)
        *before, last = self._function.body
        result: ast.expr = ast.Constant(None)
        if isinstance(last, ast.Return):
            result = last.value or result
        else:
            before.append(last)
        if any(isinstance(node, ast.Return) for one in before for node in ast.walk(one)):
            return False
        before = [*self._bound(given, [*before, ast.Expr(result)]), *before]
        result = self._substituted(given, before, result)
        return self._put(before, result)

    def _bindings(self) -> dict[str, ast.expr] | None:
        """Return the values of the parameters, or None if they cannot be determined."""
        arguments = self._function.args
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        given = list(self._call.args)
        if arguments.vararg or arguments.kwarg or any(isinstance(one, ast.Starred) for one in given):
            return None
        if self._of_class and not any("staticmethod" in ast.unparse(one) for one in self._function.decorator_list):
            function = self._call.func
            owner = (
                function.value
                if isinstance(function, ast.Attribute) and function.attr == self._function.name
                else function
            )
            given = [owner, *given]
        if len(given) > len(names):
            return None
        found = dict(zip(names, given, strict=False))
        found |= {one.arg: one.value for one in self._call.keywords if one.arg}
        defaults = dict(zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True))
        defaults |= {
            one.arg: value for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value
        }
        found = defaults | found
        wanted = {*names, *(one.arg for one in arguments.kwonlyargs)}
        return {name: found[name] for name in found if name in wanted} if wanted <= found.keys() else None

    def _rename(self, given: dict[str, ast.expr]) -> None:
        """Rename the function's own variables to names that are not used elsewhere."""
        shared = {
            name
            for node in ast.walk(self._function)
            if isinstance(node, (ast.Global, ast.Nonlocal))
            for name in node.names
        }
        inside = ast.Module(self._function.body, [])
        own = (names_bound(inside) | given.keys()) - shared
        outside = names_bound(self._tree) | set(names_loaded(self._tree))
        for node in ast.walk(inside):
            if isinstance(node, ast.Name) and node.id in own:
                node.id = _free(node.id, own, outside)
            elif isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name in own:
                node.name = _free(node.name, own, outside)
        for name in list(given):
            given[_free(name, own, outside)] = given.pop(name)
        self._function.body = [one for one in inside.body if not isinstance(one, ast.Global)] or [ast.Pass()]

    def _bound(self, given: dict[str, ast.expr], body: list[ast.stmt]) -> list[ast.stmt]:
        """Return assignments for the parameters whose value cannot replace them directly."""
        made: list[ast.stmt] = []
        for name, value in list(given.items()):
            nodes = [node for one in body for node in ast.walk(one) if isinstance(node, ast.Name) and node.id == name]
            stored = any(not isinstance(node.ctx, ast.Load) for node in nodes)
            plain = isinstance(value, (ast.Name, ast.Constant)) or len(nodes) <= 1
            if stored or not plain:
                made.append(ast.Assign([ast.Name(name, ast.Store())], copy.deepcopy(value)))
                del given[name]
        return made

    def _substituted(self, given: dict[str, ast.expr], before: list[ast.stmt], result: ast.expr) -> ast.expr:
        holder = ast.Module([*before, ast.Expr(result)], [])
        changes = {
            id(node): lambda node: copy.deepcopy(given[node.id])
            for node in ast.walk(holder)
            if isinstance(node, ast.Name) and node.id in given
        }
        Edits(changes).visit(holder)  # type: ignore[arg-type]
        before[:] = holder.body[:-1]
        last = holder.body[-1]
        assert isinstance(last, ast.Expr)
        return last.value

    def _put(self, before: list[ast.stmt], result: ast.expr) -> bool:
        for node in ast.walk(self._tree):
            for field in BLOCKS:
                block = getattr(node, field, None)
                block = block if isinstance(block, list) else []
                for place, one in enumerate(block):
                    if isinstance(one, (*FUNCTIONS, ast.ClassDef)) or not self._is_in_head(one):
                        continue
                    Edits({id(self._call): lambda node: result}).visit(one)
                    whole = isinstance(one, ast.Expr) and one.value is result
                    block[place : place + 1] = [*before, *([] if whole and isinstance(result, ast.Constant) else [one])]
                    return True
        if before:
            return False
        Edits({id(self._call): lambda node: result}).visit(self._tree)  # inside a lambda or a decorator
        return True

    def _is_in_head(self, statement: ast.stmt) -> bool:
        """True if the call belongs to a statement itself, not to a nested statement, a lambda or a comprehension."""
        heads = [getattr(statement, name, None) for name in _HEADS]
        for head in heads:
            for part in head if isinstance(head, list) else [head] if head else []:
                if _reaches(part, self._call):
                    return True
        return False


def _reaches(node: ast.AST, wanted: ast.AST) -> bool:
    if node is wanted:
        return True
    if isinstance(node, (ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.DictComp, ast.SetComp)):
        return False
    return any(_reaches(one, wanted) for one in ast.iter_child_nodes(node))


def _free(name: str, own: set[str], outside: set[str]) -> str:
    """Return a name for a variable of an inlined function that is not used outside."""
    if name not in outside - own and name not in outside:
        return name
    number = 2
    while f"{name}{number}" in outside | own:
        number += 1
    return f"{name}{number}"
