"""Lists the operators of a program, from its description or from the calls in its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from driftline.core.program import Program, SourceBundle
from driftline.programs.reached import reached_code


def operators_of(program: Program) -> tuple[str, ...]:
    """Return the operators in the order of the program, without duplicates; read from the text if not listed."""
    if program.operators or program.form != "source":
        return tuple(dict.fromkeys(program.operators))
    return operators_written(program)


def operators_written(program: Program) -> tuple[str, ...]:
    """Return the operators that the text of a `source` program calls; empty if the text cannot be read."""
    try:
        bundle = SourceBundle.load(program.path.read_bytes())
        return operators_in(bundle.text, bundle.entry_name)
    except (OSError, ValueError, KeyError, SyntaxError):
        return ()


def operators_in(text: str, factory_name: str) -> tuple[str, ...]:
    """Return the operators that a factory's program calls, in the order of evaluation. Code that only makes inputs, and
    other programs of the file, are ignored."""
    reached = reached_code(ast.parse(text), factory_name)
    names = [name for body in (*reached.definitions, *reached.lambdas) for name in operator_names(body)]
    names = names or [_made_name(made) for made in reached.made]
    return tuple(dict.fromkeys(name for name in names if name))


def operator_names(node: ast.AST) -> list[str]:
    """Return the operators of a statement or expression, in the order of evaluation."""
    return [name for one in _as_evaluated(node) if (name := _operator_name(one))]


def _as_evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in the order of evaluation: `sin` before `relu` in `relu(sin(x))`."""
    decorators = getattr(node, "decorator_list", ())
    for inner in ast.iter_child_nodes(node):
        if inner not in decorators:
            yield from _as_evaluated(inner)
    yield node


def operators_of_archive(exported: Any) -> tuple[str, ...]:
    """Return the operators of a torch.export archive, spelled as in text (`mul` for aten.mul.Tensor), so that a bug has
    one name whether the program is text or a live model."""
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
    """Return the operator of a call or sign: `relu` of F.relu(x) or x.relu(), `mul` of 2 * x; empty for other code."""
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
    """Return the first name of a function's path: `torch` of `torch.nn.functional.relu`; empty for `f(x).relu`."""
    while isinstance(function, ast.Attribute):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def _made_by(function: ast.expr) -> str:
    """Return the name that a chain of calls begins with: `np` of `np.random.default_rng(0).standard_normal`."""
    while isinstance(function, (ast.Attribute, ast.Call)):
        function = function.value if isinstance(function, ast.Attribute) else function.func
    return function.id if isinstance(function, ast.Name) else ""


def _made_name(made: ast.expr) -> str:
    """Return the operator or layer that a factory returns directly: `return torch.maximum, (x, y)`."""
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        inner = made.func.value
        made = inner if isinstance(inner, ast.Call) else made.func
    return made.attr if isinstance(made, ast.Attribute) else ""
