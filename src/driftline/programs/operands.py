"""Finds the operands of a program with a single operator: inputs in the order of its operands, and constants."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftline.core.program import Program, SourceBundle
from driftline.core.tensors import Array
from driftline.programs.onnx.file import load_structure
from driftline.programs.operators import operator_names
from driftline.programs.reached import reached_code


def operands_of(program: Program, operator: str, arrays: Mapping[str, Array]) -> list[Array] | None:
    """Return the operands of an operator that a program applies once, directly to its inputs; `None` for other programs
    and unreadable ones."""
    try:
        if program.form == "onnx":
            return _of_node(load_structure(program.path).graph, operator, arrays)
        if program.form == "source":
            bundle = SourceBundle.load(program.path.read_bytes())
            return _of_call(bundle.text, bundle.entry_name, operator, [*arrays.values()])
    except Exception:  # a damaged program: a title does without numbers
        pass
    return None


def _of_node(graph: Any, operator: str, arrays: Mapping[str, Array]) -> list[Array] | None:
    import onnx

    nodes = [node for node in graph.node if node.op_type != "Identity"]
    if len(nodes) != 1 or nodes[0].op_type != operator:
        return None
    known = dict(arrays) | {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in known:
            known[node.output[0]] = known[node.input[0]]
    names = [name for name in nodes[0].input if name]
    return [known[name] for name in names] if all(name in known for name in names) else None


def _of_call(text: str, factory_name: str, operator: str, arrays: Sequence[Array]) -> list[Array] | None:
    reached = reached_code(ast.parse(text), factory_name)
    functions: list[ast.FunctionDef | ast.Lambda] = [
        *(node for node in reached.definitions if isinstance(node, ast.FunctionDef)),
        *reached.lambdas,
    ]
    if len(functions) != 1 or len(functions) != len(reached.definitions) + len(reached.lambdas):
        return None
    names = [argument.arg for argument in functions[0].args.args]
    calls = [node for node in ast.walk(functions[0]) if isinstance(node, (ast.Call, ast.BinOp))]
    own = [node for node in calls if operator_names(node)]
    if len(own) != 1 or operator_names(own[0]) != [operator] or len(names) != len(arrays):
        return None
    given = dict(zip(names, arrays, strict=True))
    found = [_value(node, given, arrays) for node in _operands(own[0], given)]
    return None if any(one is None for one in found) else [one for one in found if one is not None]


def _operands(node: ast.Call | ast.BinOp, given: Mapping[str, Array]) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_method = isinstance(owner, ast.Name) and owner.id in given
    return [*([owner] if is_method and owner else []), *node.args, *(word.value for word in node.keywords)]


def _value(node: ast.expr, given: Mapping[str, Array], arrays: Sequence[Array]) -> Array | None:
    if isinstance(node, ast.Name):
        return given.get(node.id)
    value = ast.literal_eval(node) if isinstance(node, (ast.Constant, ast.UnaryOp)) else None
    return np.asarray(value, arrays[0].dtype) if isinstance(value, (int, float)) and arrays else None
