"""Simplify functions and classes: fewer parameters, a function instead of a class with a single method."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from functools import partial

from driftline.diagnose.reduce.scripts.edits import FUNCTIONS, Edits, names_bound, names_loaded

_CALLED = ("forward", "__call__")


def fewer_parameters(tree: ast.Module) -> Iterator[ast.Module]:
    """Yield scripts with one parameter removed, from the function, its calls and its body."""
    for at, node in enumerate(ast.walk(tree)):
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            continue
        for place, one in enumerate(node.args.args):
            if one.arg != "self":
                for default in _defaults(node, place):
                    made = copy.deepcopy(tree)
                    function = list(ast.walk(made))[at]
                    assert isinstance(function, (ast.FunctionDef, ast.Lambda))
                    _drop_parameter(made, function, place, default)
                    yield made


def _defaults(node: ast.FunctionDef | ast.Lambda, place: int) -> list[ast.expr | None]:
    """Return possible replacements of a parameter: None if it is never read, otherwise its default and a plain
    constant.
    """
    name = node.args.args[place].arg
    body = node.body if isinstance(node.body, list) else [node.body]
    if not any(name in names_loaded(one) for one in body):
        return [None]
    first = place - (len(node.args.args) - len(node.args.defaults))
    others: list[ast.expr | None] = [ast.Constant(1)]
    return [node.args.defaults[first], *others] if first >= 0 else others


def _drop_parameter(
    tree: ast.Module, function: ast.FunctionDef | ast.Lambda, place: int, default: ast.expr | None
) -> None:
    arguments = function.args
    name = arguments.args[place].arg
    first = place - (len(arguments.args) - len(arguments.defaults))
    if first >= 0:
        del arguments.defaults[first]
    del arguments.args[place]
    if default is not None:
        reads = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name]
        Edits({id(node): lambda node: copy.deepcopy(default) for node in reads}).visit(function)
    called, skipped = _called_as(tree, function)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in called:
            given = place - skipped
            if 0 <= given < len(node.args):
                del node.args[given]
            node.keywords = [one for one in node.keywords if one.arg != name]


def _called_as(tree: ast.Module, function: ast.FunctionDef | ast.Lambda) -> tuple[set[str], int]:
    """Return the names by which a function is called, and the number of leading parameters that calls do not pass."""
    names: set[str] = set()
    skipped = 0
    if isinstance(function, ast.FunctionDef):
        names.add(function.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and function in node.body:
            skipped = int(not any("staticmethod" in ast.unparse(one) for one in function.decorator_list))  # type: ignore[union-attr]
            names |= {node.name} if "__init__" in names else set()
            names |= _holders(tree, {node.name}) if names & {*_CALLED} else set()
    for node in ast.walk(tree):  # a variable that holds the function, compiled or not
        if isinstance(node, ast.Assign) and any(one is function for one in ast.walk(node.value)):
            names |= {ast.unparse(target).rpartition(".")[2] for target in node.targets}
    return names | _holders(tree, names), skipped


def _holders(tree: ast.Module, names: set[str]) -> set[str]:
    """Return the names, with the variables that hold something which a compiler or a class made from them."""
    found = set(names)
    while True:
        more = {name for node in ast.walk(tree) for name in _held(node, found)} - found
        if not more:
            return found
        found |= more


def _held(node: ast.AST, names: set[str]) -> set[str]:
    """Return the targets of an assignment whose value a compiler or a class makes from one of the names."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return set()
    maker = ast.unparse(node.value.func)
    given = {ast.unparse(one) for one in node.value.args} | _inner(node.value)
    if maker not in names and not ("compile" in maker and given & names):
        return set()
    return {ast.unparse(target).rpartition(".")[2] for target in node.targets}


def _inner(call: ast.Call) -> set[str]:
    return {ast.unparse(one.func) for one in call.args if isinstance(one, ast.Call)}


def functions_for_classes(tree: ast.Module) -> Iterator[ast.Module]:
    """Yield scripts in which a function replaces a class of which only one method is called. `self` becomes the
    function.
    """
    for at, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.ClassDef) and any(
            isinstance(one, ast.FunctionDef) and one.name in _CALLED for one in node.body
        ):
            made = copy.deepcopy(tree)
            of = list(ast.walk(made))[at]
            assert isinstance(of, ast.ClassDef)
            _functional(made, of)
            yield made


def _functional(tree: ast.Module, of: ast.ClassDef) -> None:
    function = next(one for one in of.body if isinstance(one, ast.FunctionDef) and one.name in _CALLED)
    function.name = of.name
    if function.args.args:
        own = function.args.args.pop(0).arg
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id == own:
                node.id = of.name
    Edits({id(of): lambda node: function}).visit(tree)
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == of.name]
    inside = {id(node) for node in ast.walk(function)}
    changes = {id(node): lambda node: ast.Name(of.name, ast.Load()) for node in made if id(node) not in inside}
    Edits(changes).visit(tree)  # type: ignore[arg-type]


def instances_for_classes(tree: ast.Module) -> Iterator[ast.Module]:
    """Yield scripts in which a class is used in place of its instances, so that instance attributes become class
    attributes.
    """
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for name in names:
        made = copy.deepcopy(tree)
        calls = [node for node in ast.walk(made) if isinstance(node, ast.Call) and ast.unparse(node.func) == name]
        Edits({id(call): lambda node: node.func for call in calls}).visit(made)  # type: ignore[attr-defined]
        yield made


def class_attributes(tree: ast.Module) -> Iterator[ast.Module]:
    """Yield scripts in which a class sets attributes that its `__init__` set before."""
    for at, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.ClassDef) and any(
            isinstance(one, FUNCTIONS) and one.name == "__init__" for one in node.body
        ):
            made = copy.deepcopy(tree)
            of = list(ast.walk(made))[at]
            assert isinstance(of, ast.ClassDef)
            _raise_attributes(of)
            yield made


def _raise_attributes(of: ast.ClassDef) -> None:
    place, first = next(
        (p, one) for p, one in enumerate(of.body) if isinstance(one, FUNCTIONS) and one.name == "__init__"
    )
    raised = [one for one in first.body if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Attribute)]
    for one in raised:
        one.targets = [
            ast.Name(target.attr, ast.Store()) for target in one.targets if isinstance(target, ast.Attribute)
        ]
    of.body[place : place + 1] = raised


def variables_for_attributes(tree: ast.Module) -> Iterator[ast.Module]:
    """Yield scripts in which a global variable replaces an attribute that the script sets."""
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)]
    for name in dict.fromkeys(node.attr for node in stored):
        made = copy.deepcopy(tree)
        variable = f"{name}2" if name in {*names_loaded(tree), *names_bound(tree)} else name
        reads = [node for node in ast.walk(made) if isinstance(node, ast.Attribute) and node.attr == name]
        Edits({id(node): partial(_named, variable) for node in reads}).visit(made)
        for node in ast.walk(made):
            if isinstance(node, FUNCTIONS) and variable in names_bound(ast.Module(node.body, [])):
                node.body.insert(0, ast.Global([variable]))
        yield made


def _named(variable: str, node: ast.AST) -> ast.AST:
    return ast.Name(variable, node.ctx)  # type: ignore[attr-defined]


def plain_definitions(tree: ast.Module) -> Iterator[ast.Module]:
    """Yield the script without annotations, docstrings and prints; then with the prints kept."""
    for kept in ((), ("print",)):
        yield plain(copy.deepcopy(tree), kept)


def plain(made: ast.Module, kept: tuple[str, ...]) -> ast.Module:
    """Remove annotations, strings that stand alone, and calls of `print` unless `print` is in `kept`. Changes the tree
    in place.
    """
    for node in ast.walk(made):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, FUNCTIONS):
            node.returns = None
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [one for one in body if not _says_nothing(one, kept)]
    return made


def _says_nothing(statement: ast.AST, kept: tuple[str, ...]) -> bool:
    """True for a string that stands alone, and for a call that only prints."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
        return "print" not in kept
    return isinstance(value, ast.Constant)
