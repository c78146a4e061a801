"""A program of a model in the form that Driftline runs: a file with a factory `program`.

Many models do not keep to the form that they are asked for: they write a class, make one of it, make inputs and call
it, all at the top of the file. That is a factory written flat, and is folded into one.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from driftline.generate.authored.names import NO_MODEL, Unusable

FACTORY = "program"
_FUNCTIONS = (ast.FunctionDef, ast.ClassDef)
_MODULES = ("Module", "Model", "Layer")  # the last name of a base class
_METHODS = ("forward", "call", "__call__")  # what a module is called by
_LIKELY = ("model", "forward", "fn", "f", "func", "test", "run", "main_function")


def factory_text(tree: ast.Module, text: str) -> str:
    """The text of a file with a factory. Raises `Unusable`."""
    body = [node for node in tree.body if not _is_main_guard(node)]
    guarded = [inner for node in tree.body if isinstance(node, ast.If) and _is_main_guard(node) for inner in node.body]
    if any(isinstance(node, ast.FunctionDef) and node.name == FACTORY and not _required(node) for node in body):
        kept = [node for node in body if not isinstance(node, ast.Expr)]
        return text if len(kept) == len(tree.body) else _written(kept)
    return _folded([*body, *guarded])


def with_inputs(text: str, inputs: Sequence[str], *, evaluating: bool, head: str = "") -> str:
    """The same file with other example inputs, or with its module in eval mode: the factory is called by another.
    `head` imports what the inputs are written with, should the file not do so."""
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == FACTORY:
            node.name = "given_program"
    model = "model.eval()" if evaluating else "model"
    given = f"({', '.join(inputs)}{',' * (len(inputs) == 1)})" if inputs else "inputs"
    lines = ["", "", f"def {FACTORY}():", *([f"    {head}"] if head and inputs else [])]
    lines += ["    model, inputs = given_program()", f"    return {model}, {given}", ""]
    return ast.unparse(tree) + "\n".join(lines)


def _folded(body: Sequence[ast.stmt]) -> str:
    """Definitions stay at the top; what is done there goes into the factory, without calls of the model itself."""
    classes = [node for node in body if isinstance(node, ast.ClassDef) and _is_module(node)]
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    stay = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom, *_FUNCTIONS)) or _is_constant(node)]
    steps = [node for node in body if node not in stay]
    assigned = [target.id for node in body if isinstance(node, ast.Assign) for target in _targets(node)]
    makers = {node.name for node in classes}
    instances = [
        target.id
        for node in steps
        if isinstance(node, ast.Assign) and _calls(node.value) in makers
        for target in _targets(node)
    ]
    callable_names = {*instances, *(node.name for node in functions)}
    calls = [node for node in steps if _call_of(node, callable_names)]
    if instances:
        model, parameters = instances[-1], _parameters(classes, _class_of(steps, instances[-1]))
    elif classes:
        model, parameters = f"{classes[-1].name}()", _parameters(classes, classes[-1].name)
    elif functions:
        called = [found.func.id for node in calls if (found := _call_of(node, callable_names))]  # type: ignore[attr-defined]
        chosen = next((node for node in functions if node.name in called), None) or next(
            (node for node in functions if node.name in _LIKELY), functions[-1]
        )
        model, parameters = chosen.name, _arguments(chosen)
    else:
        raise Unusable(NO_MODEL, "there is no class Model and no function that could be compiled")
    others = [node for node in steps if node not in calls]
    made_there = [target.id for node in others if isinstance(node, ast.Assign) for target in _targets(node)]
    made_there = [name for name in dict.fromkeys(made_there) if name not in instances]
    inputs = _inputs(calls, callable_names, model, parameters, assigned, made_there)
    made = ast.FunctionDef(
        name=FACTORY,
        args=ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
        body=[
            *(node for node in steps if node not in calls and not isinstance(node, ast.Expr)),
            ast.parse(f"return {model}, ({', '.join(inputs)}{',' * (len(inputs) == 1)})").body[0],
        ],
        decorator_list=[],
    )
    return _written([*stay, made])


def _inputs(
    calls: Sequence[ast.stmt],
    callable_names: set[str],
    model: str,
    parameters: Sequence[str],
    assigned: Sequence[str],
    made_there: Sequence[str],
) -> list[str]:
    """What the model is called with: as it is called in the text, what has the names of its parameters, or what else is
    made in the text, where that is as many."""
    for node in calls:
        found = _call_of(node, callable_names)
        if found and isinstance(found.func, ast.Name) and found.func.id == model and not found.keywords:
            return [ast.unparse(argument) for argument in found.args]
    if parameters and all(name in assigned for name in parameters):
        return list(parameters)
    if parameters and len(parameters) == len(made_there):
        return list(made_there)
    raise Unusable(NO_MODEL, f"there are no example inputs for {model}({', '.join(parameters)})")


def _written(body: Sequence[ast.stmt]) -> str:
    module = ast.fix_missing_locations(ast.Module(body=list(body), type_ignores=[]))
    return ast.unparse(module) + "\n"


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def _required(node: ast.FunctionDef) -> bool:
    return len(node.args.args) > len(node.args.defaults) or bool(node.args.vararg)


def _is_module(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split(".")[-1] in _MODULES for base in node.bases)


def _is_constant(node: ast.stmt) -> bool:
    """A plain number or text: functions may refer to it."""
    if not isinstance(node, ast.Assign):
        return False
    try:
        ast.literal_eval(node.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _targets(node: ast.Assign) -> list[ast.Name]:
    return [target for target in node.targets if isinstance(target, ast.Name)]


def _calls(value: ast.expr) -> str:
    """The class that `Model(...)` or `Model(...).eval()` makes one of."""
    while (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Call)
    ):
        value = value.func.value
    return value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""


def _call_of(node: ast.stmt, callable_names: set[str]) -> ast.Call | None:
    """The call of the model in a statement such as `y = m(x)`, `print(m(x))` or `m(x)`."""
    if not isinstance(node, (ast.Assign, ast.Expr)):
        return None
    for inner in ast.walk(node.value):
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in callable_names:
            return inner
    return None


def _class_of(steps: Sequence[ast.stmt], instance: str) -> str:
    made = [node for node in steps if isinstance(node, ast.Assign) and instance in {t.id for t in _targets(node)}]
    return _calls(made[-1].value) if made else ""


def _parameters(classes: Sequence[ast.ClassDef], name: str) -> list[str]:
    """The parameters that a class is called with."""
    for node in classes:
        if node.name == name:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name in _METHODS:
                    return _arguments(inner)[1:]
    return []


def _arguments(node: ast.FunctionDef) -> list[str]:
    """Those without a default."""
    arguments = [argument.arg for argument in node.args.args]
    return arguments[: len(arguments) - len(node.args.defaults)]
