"""The operators of a program: those that were listed when it was opened, or those that its text calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from driftline.core.program import Program, SourceBundle
from driftline.programs.reached import reached_code


def operators_of(program: Program) -> tuple[str, ...]:
    """In the order of the program, each once; read from the text when they are not listed."""
    if program.operators or program.form != "source":
        return tuple(dict.fromkeys(program.operators))
    return operators_written(program)


def operators_written(program: Program) -> tuple[str, ...]:
    """What the text of a `source` program calls; empty where the text cannot be read."""
    try:
        bundle = SourceBundle.load(program.path.read_bytes())
        return operators_in(bundle.text, bundle.entry_name)
    except (OSError, ValueError, KeyError, SyntaxError):
        return ()


def operators_in(text: str, factory_name: str) -> tuple[str, ...]:
    """The operators that the program of a factory calls, in the order of evaluation. What the factory does to make
    inputs, and what other programs of the file do, does not count."""
    reached = reached_code(ast.parse(text), factory_name)
    names = [name for body in (*reached.definitions, *reached.lambdas) for name in operator_names(body)]
    names = names or [_made_name(made) for made in reached.made]
    return tuple(dict.fromkeys(name for name in names if name))


def operator_names(node: ast.AST) -> list[str]:
    """The operators of a statement or an expression, in the order of evaluation."""
    return [name for one in _as_evaluated(node) if (name := _operator_name(one))]


def _as_evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """The node after all that stands in it: `sin` before `relu` in `relu(sin(x))`."""
    decorators = getattr(node, "decorator_list", ())
    for inner in ast.iter_child_nodes(node):
        if inner not in decorators:
            yield from _as_evaluated(inner)
    yield node


def operators_of_archive(exported: Any) -> tuple[str, ...]:
    """What the graph of a torch.export archive calls, spelled as text would: `mul` of aten.mul.Tensor. So a bug has one
    name, whether the program comes as text or as a live model."""
    schemas = [getattr(node.target, "_schema", None) for node in exported.graph.nodes if node.op == "call_function"]
    names = [schema.name.rpartition("::")[2] for schema in schemas if schema is not None]
    return tuple(name for name in names if not name.startswith(("_", "sym_")) and name not in _MADE_BY_EXPORT)


_MADE_BY_EXPORT = ("lift_fresh_copy", "detach", "detach_", "alias", "to", "clone")
_SIGNS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "FloorDiv": "floor_divide", "Mod": "remainder",
    "Pow": "pow", "MatMult": "matmul",
}  # fmt: skip
_HOUSEHOLD = ("tensor", "register_buffer", "from_numpy", "to", "manual_seed", "eval", "Parameter", "Generator")
_NUMPY = ("np", "numpy", "rng")  # by their usual names: numpy makes the numbers of a program


def _operator_name(node: ast.AST) -> str:
    """`relu` of F.relu(x) or x.relu(), `mul` of 2 * x; nothing for what is no operator."""
    if isinstance(node, ast.BinOp):
        if _is_number(node.left) and _is_number(node.right):
            return ""  # `1 + 2j` is a constant
        return _SIGNS.get(type(node.op).__name__, "")
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    name, owner = node.func.attr, _owner(node.func)
    if name.startswith("_") or name in _HOUSEHOLD or owner == "self" or _made_by(node.func) in _NUMPY:
        return ""
    return name


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant)


def _owner(function: ast.expr) -> str:
    """`torch` of `torch.nn.functional.relu`; nothing of `f(x).relu`."""
    while isinstance(function, ast.Attribute):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def _made_by(function: ast.expr) -> str:
    """`np` of `np.random.default_rng(0).standard_normal`: where a chain of calls begins."""
    while isinstance(function, (ast.Attribute, ast.Call)):
        function = function.value if isinstance(function, ast.Attribute) else function.func
    return function.id if isinstance(function, ast.Name) else ""


def _made_name(made: ast.expr) -> str:
    """The name of the operator or layer that a factory returns as such: `return torch.maximum, (x, y)`."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        inner = made.func.value
        made = inner if isinstance(inner, ast.Call) else made.func
    return made.attr if isinstance(made, ast.Attribute) else ""
