"""Reads graphs in the format that `torch.fx` prints.

Every stage of a compilation prints its graph in one form, which is Python: `add: "f32[2, 3][3, 1]cpu" =
torch.ops.aten.add.Tensor(x, y)`, with the user's source line in a comment above. So one reader serves all stages and
releases, and needs no torch: it reads files of earlier captures, too.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

_SOURCE = re.compile(r"^\s*# File: (?P<file>.+?):(?P<line>\d+) in (?P<function>.+?), code: (?P<code>.*)$")
_NO_SOURCE = re.compile(r"^\s*# No stacktrace found")
_TENSOR = re.compile(r"^(?P<dtype>[a-z]+\d+[a-z0-9]*)\[(?P<shape>[^\]]*)\]")
_NAMELESS = re.compile(r"^class <\w+>\(", re.MULTILINE)  # AOTAutograd calls its graphs <lambda>
_BITS = re.compile(r"\d+")


@dataclass(frozen=True)
class UserLine:
    """The line of the user's program that a node comes from."""

    file: str
    line: int
    function: str
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class PrintedNode:
    """One value of a printed graph."""

    name: str
    op: str  # as it is called: `aten.add.Tensor`, `torch.relu`, `+`; `input` for a placeholder
    dtype: str = ""  # as torch abbreviates it: f32, bf16, i64, b8
    shape: tuple[str, ...] | None = None  # texts, since dimensions may be symbols
    args: tuple[str, ...] = ()  # names of the nodes it reads
    source: UserLine | None = None

    @property
    def elements(self) -> int | None:
        """The number of elements, or `None` if it is not known before the run."""
        if self.shape is None or not all(size.isdigit() for size in self.shape):
            return None
        return math.prod(int(size) for size in self.shape)

    @property
    def nbytes(self) -> int | None:
        return None if self.elements is None else self.elements * itemsize(self.dtype)

    @property
    def type(self) -> str:
        return f"{self.dtype}[{', '.join(self.shape)}]" if self.shape is not None else self.dtype

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "type": self.type}


@dataclass(frozen=True)
class PrintedGraph:
    """A graph in topological order; `outputs` are names, in the order in which they are returned."""

    inputs: tuple[PrintedNode, ...]
    nodes: tuple[PrintedNode, ...]
    outputs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [node.to_json() for node in self.inputs],
            "nodes": [node.to_json() for node in self.nodes],
            "outputs": list(self.outputs),
        }


def itemsize(dtype: str) -> int:
    """Return the bytes of one element from the dtype's abbreviation: bf16 has 2, b8 (a boolean) has 1."""
    bits = _BITS.search(dtype)
    return max(int(bits.group()) // 8, 1) if bits else 1


def read_graph(text: str) -> PrintedGraph:
    """Read a graph that `GraphModule.print_readable` wrote; raises `ValueError` for any other text."""
    try:
        forward = next(_forwards(ast.parse(_NAMELESS.sub("class GraphModule(", text))))
    except (SyntaxError, StopIteration, RecursionError) as error:
        raise ValueError("this is not a graph as torch.fx prints it") from error
    sources = _sources(text)
    inputs = [_input(a) for a in forward.args.args[1:]]
    known = {node.name: node.name for node in inputs}  # name in the text -> name of the node it stands for
    nodes: list[PrintedNode] = []
    outputs: tuple[str, ...] = ()
    for statement in forward.body:
        match statement:
            case ast.Return(value=value):
                outputs = tuple(known[n] for n in _names(value) if n in known)
            case ast.Assign(value=ast.Constant(value=None)):
                pass  # `x = None`: a value that is no longer needed
            case ast.Assign(targets=[ast.Name(id=name), *_], value=ast.Name(id=other)) if other in known:
                known[name] = known[other]  # Dynamo gives its inputs a second name
            case _:
                if made := _assigned(statement):
                    nodes.append(_node(*made, known, sources.get(statement.lineno)))
    return PrintedGraph(tuple(inputs), tuple(nodes), outputs)


def _assigned(statement: ast.stmt) -> tuple[str, str, ast.expr] | None:
    """Return the name, annotation and expression of a statement that computes a value; None for other statements."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as value):
            return name, str(annotation.value) if isinstance(annotation, ast.Constant) else "", value
        case ast.Assign(targets=[ast.Name(id=name), *_], value=value):
            return name, "", value
        case ast.Expr(value=ast.Call() as value):
            return f"_effect_{statement.lineno}", "", value
    return None


def _forwards(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for top in tree.body:
        if isinstance(top, ast.ClassDef):
            yield from (f for f in top.body if isinstance(f, ast.FunctionDef) and f.name == "forward")


def _sources(text: str) -> dict[int, UserLine | None]:
    """Return the user's source line, if known, for each line number of the text."""
    found: dict[int, UserLine | None] = {}
    current: UserLine | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if match := _SOURCE.match(line):
            current = UserLine(match["file"], int(match["line"]), match["function"], match["code"].strip())
        elif _NO_SOURCE.match(line):
            current = None
        found[number] = current
    return found


def _input(argument: ast.arg) -> PrintedNode:
    told = argument.annotation.value if isinstance(argument.annotation, ast.Constant) else ""
    dtype, shape = _type(str(told))
    return PrintedNode(argument.arg, "input", dtype, shape)


def _node(name: str, told: str, value: ast.expr, known: dict[str, str], source: UserLine | None) -> PrintedNode:
    dtype, shape = _type(told)
    args = tuple(dict.fromkeys(known[n] for n in _names(value) if n in known))
    known[name] = name
    return PrintedNode(name, _operation(value), dtype, shape, args, source)


def _type(told: str) -> tuple[str, tuple[str, ...] | None]:
    match = _TENSOR.match(told)
    if not match:
        return told, None
    return match["dtype"], tuple(size.strip() for size in match["shape"].split(",") if size.strip())


def _names(value: ast.expr | None) -> Iterator[str]:
    if value is None:
        return
    for part in ast.walk(value):
        if isinstance(part, ast.Name):
            yield part.id


def _operation(value: ast.expr) -> str:
    if isinstance(value, ast.Call):
        called = ast.unparse(value.func)
        if isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Name):
            owner = value.func.value.id
            called = called if owner in ("torch", "operator", "math") else f".{value.func.attr}"
        return called.removeprefix("torch.ops.").removeprefix("torch._C._nn.")
    if isinstance(value, ast.BinOp):
        return _SIGNS.get(type(value.op), type(value.op).__name__)
    if isinstance(value, ast.Compare):
        return type(value.ops[0]).__name__.lower()
    if isinstance(value, ast.UnaryOp):
        return type(value.op).__name__.lower()
    if isinstance(value, ast.Subscript):
        return "getitem"
    if isinstance(value, ast.Attribute):
        return "attribute"
    return type(value).__name__.lower()


_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.MatMult: "@", ast.Pow: "**", ast.FloorDiv: "//",
    ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
