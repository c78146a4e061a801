"""Writes an FX graph as a readable Python file with a factory `program`.

Operators are written as people write them (`aten_spelling.py`). Runs in a worker: it imports torch.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
import torch.fx as fx

from driftline.core.quoting import is_identifier, string
from driftline.programs.aten_spelling import call_text, spelled
from driftline.programs.torch_names import Unwritable, literal, path_of

_INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.matmul: "@",
    operator.floordiv: "//", operator.mod: "%", operator.pow: "**", operator.and_: "&", operator.or_: "|",
    operator.xor: "^", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
    operator.eq: "==", operator.ne: "!=",
}  # fmt: skip


def program_text(
    graph: fx.Graph, inputs: Mapping[str, str], owned: Mapping[str, str], *, user_level: bool = True
) -> str:
    """Return the whole file. `inputs` maps placeholders to expressions for their examples; `owned` maps attributes of
    the module (parameters, buffers, submodules) to expressions. Without `user_level`, overloads are written as
    `torch.ops...`.
    """
    _require_names(graph, owned)
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    body = _statements(graph, user_level)
    text = "\n".join(body)
    head = ["import torch"]
    if "F." in text or any("F." in made for made in owned.values()):
        head.append("import torch.nn.functional as F")
    if "torch.ops.quantized_decomposed." in text:  # operators of quantised models; this import registers them
        head.append("import torch.ao.quantization.fx._decomposed")
    lines = [*head, "", ""]
    if owned:
        lines += ["class Model(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += [f"        {_own(name, made)}" for name, made in owned.items()]
        lines += ["", f"    def forward({', '.join(['self', *names])}):", *(f"        {line}" for line in body)]
    else:
        lines += [f"def model({', '.join(names)}):", *(f"    {line}" for line in body)]
    lines += ["", "", "def program():"]
    lines += [f"    {name} = {inputs[name]}" for name in names]
    given = f"({', '.join(names)}{',' * (len(names) == 1)})"
    lines += [f"    return {'Model().eval()' if owned else 'model'}, {given}", ""]
    return "\n".join(lines)


def _require_names(graph: fx.Graph, owned: Mapping[str, str]) -> None:
    """Raise `Unwritable` if a name in the graph is no Python identifier: the names may come from a file."""
    methods = [str(node.target) for node in graph.nodes if node.op in ("call_method", "call_module", "get_attr")]
    attributes = [str(node.args[1]) for node in graph.nodes if node.target is getattr]
    keywords = [key for node in graph.nodes for key in node.kwargs]
    for name in (*(node.name for node in graph.nodes), *methods, *attributes, *keywords, *owned):
        if not is_identifier(name):
            raise Unwritable(f"{name!r} is no name in Python")


def _own(name: str, made: str) -> str:
    if made.startswith("torch.nn."):
        return f"self.{name} = {made}"
    return f"self.register_buffer({string(name)}, {made})"


def _statements(graph: fx.Graph, user_level: bool) -> list[str]:
    """Return one line for each node of the graph that is not an input or attribute."""
    lines: list[str] = []
    for node in graph.nodes:
        if node.op == "placeholder" or node.op == "get_attr":
            continue
        if node.op == "output":
            lines.append(f"return {_result(node.args[0])}")
        else:
            lines.append(f"{node.name} = {_expression(node, user_level)}")
    return lines


def _result(value: Any) -> str:
    if isinstance(value, (tuple, list)) and len(value) == 1:
        return _write(value[0])
    return _write(tuple(value) if isinstance(value, list) else value)


def _name_of(value: Any) -> str | None:
    if isinstance(value, fx.Node):
        return f"self.{value.target}" if value.op == "get_attr" else value.name
    if isinstance(value, torch.Tensor):
        raise Unwritable("a tensor is neither an input nor owned by the module")
    return None


def _write(value: Any) -> str:
    if isinstance(value, fx.immutable_collections.immutable_list):
        value = list(value)
    if isinstance(value, fx.immutable_collections.immutable_dict):
        value = dict(value)
    return literal(value, _name_of)


def _place(value: Any) -> str:
    """Return the text of an index between square brackets."""
    if isinstance(value, tuple) and value:
        return ", ".join(map(_place, value)) + "," * (len(value) == 1)
    if isinstance(value, slice):
        ends = ["" if end is None else _write(end) for end in (value.start, value.stop)]
        return ":".join(ends if value.step is None else [*ends, _write(value.step)])
    return _write(value)


def _expression(node: fx.Node, user_level: bool) -> str:
    args, kwargs = node.args, node.kwargs
    if node.op == "call_method":
        return call_text(f".{node.target}", args, kwargs, _write)
    if node.op == "call_module":
        return call_text(f"self.{node.target}", args, kwargs, _write)
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        if user_level:
            return spelled(target, args, kwargs, _write)
        return call_text(str(path_of(target)), args, kwargs, _write)
    if target is operator.getitem:
        return f"{_write(args[0])}[{_place(args[1])}]"
    if target in _INFIX and len(args) == 2 and not kwargs:
        return f"{_write(args[0])} {_INFIX[target]} {_write(args[1])}"
    if target is operator.neg:
        return f"-{_write(args[0])}"
    if target is getattr:
        return f"{_write(args[0])}.{args[1]}"
    path = path_of(target)
    if path is None:
        raise Unwritable(f"{getattr(target, '__name__', target)} has no public path")
    return call_text(path.replace("torch.nn.functional.", "F."), args, kwargs, _write)
