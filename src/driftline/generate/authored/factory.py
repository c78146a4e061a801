"""Turn a language model's program into the form that Driftline runs: a file with a factory `program`.

Many models do not follow the requested form: they write a class, create an instance, make inputs and call it, all at
the top level of the file. Those statements are moved into a factory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from driftline.generate.authored.names import NO_MODEL, Unusable

FACTORY = "program"
_FUNCTIONS = (ast.FunctionDef, ast.ClassDef)
_MODULES = ("Module", "Model", "Layer")  # the last name of a base class
_METHODS = ("forward", "call", "__call__")  # methods that run when a module is called
_LIKELY = ("model", "forward", "fn", "f", "func", "test", "run", "main_function")


def factory_text(tree: ast.Module, text: str) -> str:
    """Return the text of a file with a factory. Raises `Unusable`."""
    body = [node for node in tree.body if not _is_main_guard(node)]
    guarded = [inner for node in tree.body if isinstance(node, ast.If) and _is_main_guard(node) for inner in node.body]
    if any(isinstance(node, ast.FunctionDef) and node.name == FACTORY and not _required(node) for node in body):
        kept = [node for node in body if not isinstance(node, ast.Expr)]
        return text if len(kept) == len(tree.body) else _written(kept)
    return _folded([*body, *guarded])


def with_inputs(text: str, inputs: Sequence[str], *, evaluating: bool, head: str = "") -> str:
    """Return the file with other example inputs, or with its module in eval mode. The original factory is kept and
    called by a new one. `head` is an import that the inputs need."""
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
    """Move the statements at the top of a file into a factory, without the calls of the model itself."""
    flat = _FlatFile(body)
    model, parameters = flat.find_model()
    inputs = flat.find_inputs(model, parameters)
    made = ast.FunctionDef(
        name=FACTORY,
        args=ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
        body=[
            *(node for node in flat.others if not isinstance(node, ast.Expr)),
            ast.parse(f"return {model}, ({', '.join(inputs)}{',' * (len(inputs) == 1)})").body[0],
        ],
        decorator_list=[],
    )
    return _written([*flat.definitions, made])


class _FlatFile:
    """The statements of a file that makes a model, its inputs and a call at the top, sorted by purpose."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self._body = body
        self._classes = [node for node in body if isinstance(node, ast.ClassDef) and _is_module(node)]
        self._functions = [node for node in body if isinstance(node, ast.FunctionDef)]
        kinds = (ast.Import, ast.ImportFrom, *_FUNCTIONS)
        self.definitions = [node for node in body if isinstance(node, kinds) or _is_constant(node)]
        self._steps = [node for node in body if node not in self.definitions]
        self._instances = self._find_instances()
        self._callable_names = {*self._instances, *(node.name for node in self._functions)}
        self._calls = [node for node in self._steps if _call_of(node, self._callable_names)]
        self.others = [node for node in self._steps if node not in self._calls]

    def _find_instances(self) -> list[str]:
        """List the variables that hold instances of the file's modules."""
        classes = {node.name for node in self._classes}
        assignments = [node for node in self._steps if isinstance(node, ast.Assign)]
        return [name for node in assignments if _calls(node.value) in classes for name in _assigned([node])]

    def find_model(self) -> tuple[str, list[str]]:
        """Return the expression that makes the model, and the names of the model's parameters."""
        if self._instances:
            name = self._instances[-1]
            return name, _parameters(self._classes, _class_of(self._steps, name))
        if self._classes:
            name = self._classes[-1].name
            return f"{name}()", _parameters(self._classes, name)
        if self._functions:
            function = self._find_function()
            return function.name, _arguments(function)
        raise Unusable(NO_MODEL, "there is no class Model and no function that could be compiled")

    def _find_function(self) -> ast.FunctionDef:
        """Return the first function that is called, else one with a usual name, else the last."""
        found = (_call_of(node, self._callable_names) for node in self._calls)
        called = {call.func.id for call in found if call and isinstance(call.func, ast.Name)}
        for names in (called, _LIKELY):
            for function in self._functions:
                if function.name in names:
                    return function
        return self._functions[-1]

    def find_inputs(self, model: str, parameters: Sequence[str]) -> list[str]:
        """Return the arguments of the first call of the model, else the variables with the names of its parameters,
        else all variables that the file makes if they are as many as the parameters."""
        for node in self._calls:
            found = _call_of(node, self._callable_names)
            if found and isinstance(found.func, ast.Name) and found.func.id == model and not found.keywords:
                return [ast.unparse(argument) for argument in found.args]
        if parameters and set(parameters) <= set(_assigned(self._body)):
            return list(parameters)
        variables = [name for name in dict.fromkeys(_assigned(self.others)) if name not in self._instances]
        if parameters and len(parameters) == len(variables):
            return variables
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
    """True for an assignment of a literal, which functions may refer to."""
    if not isinstance(node, ast.Assign):
        return False
    try:
        ast.literal_eval(node.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _assigned(body: Iterable[ast.stmt]) -> list[str]:
    """List the names that the assignments among these statements give values to."""
    targets = (target for node in body if isinstance(node, ast.Assign) for target in node.targets)
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _calls(value: ast.expr) -> str:
    """Return the name of the class that `Model(...)` or `Model(...).eval()` instantiates; an empty string for anything
    else."""
    while (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Call)
    ):
        value = value.func.value
    return value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""


def _call_of(node: ast.stmt, callable_names: set[str]) -> ast.Call | None:
    """Return the call of the model in a statement such as `y = m(x)`, `print(m(x))` or `m(x)`; None if there is
    none."""
    if not isinstance(node, (ast.Assign, ast.Expr)):
        return None
    for inner in ast.walk(node.value):
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in callable_names:
            return inner
    return None


def _class_of(steps: Sequence[ast.stmt], instance: str) -> str:
    made = [node for node in steps if isinstance(node, ast.Assign) and instance in _assigned([node])]
    return _calls(made[-1].value) if made else ""


def _parameters(classes: Sequence[ast.ClassDef], name: str) -> list[str]:
    """Return the parameters that instances of a class are called with."""
    for node in classes:
        if node.name == name:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name in _METHODS:
                    return _arguments(inner)[1:]
    return []


def _arguments(node: ast.FunctionDef) -> list[str]:
    """Return the parameters without a default."""
    arguments = [argument.arg for argument in node.args.args]
    return arguments[: len(arguments) - len(node.args.defaults)]
