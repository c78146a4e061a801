"""Observe the values and executed statements of a script in a run without the compiler, by printing them from an
instrumented text.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

MARK = "driftline-observed:"
_NOTE = "_driftline_note"
MOST_TEXT = 60  # characters of a value
# In the script's own process. What an expression gave is a text: of a small value, or of a call that makes the like.
_PRELUDE = """
_driftline_seen, _driftline_reached = {}, {}
def _driftline_note(place, value):
    try:
        _driftline_seen.setdefault(place, {})[_driftline_text(value)] = 1
    except Exception:
        _driftline_seen.setdefault(place, {})[""] = 1
    return value
def _driftline_text(value, deep=0):
    import torch, types
    of = type(value)
    if value is None or of in (bool, int, str):
        return repr(value)
    if of is float:
        return repr(value) if value == value and abs(value) < 1e9 else ""
    if of in (tuple, list, torch.Size) and deep < 3 and len(value) < 9:
        inside = [_driftline_text(one, deep + 1) for one in value]
        if all(inside) and not any(one.startswith("def ") for one in inside):
            return "[" + ", ".join(inside) + "]" if of is list else "(" + "".join(one + ", " for one in inside) + ")"
    if of is torch.Tensor and value.layout == torch.strided and value.grad_fn is None:
        if value.dtype.is_floating_point:
            more = "" if value.dtype == torch.float32 else ", dtype=" + str(value.dtype)
            more += ", requires_grad=True" if value.requires_grad else ""
            return "torch.ones(" + ", ".join(map(str, value.shape or (1,))) + more + ")"
        if value.dtype == torch.int64:
            return "torch.arange(" + str(value.numel()) + ").reshape(" + repr(tuple(value.shape)) + ")"
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    value = getattr(value, "__func__", value)
    if isinstance(value, types.FunctionType) and value.__module__ == "__main__":
        return "def " + value.__qualname__
    if isinstance(value, torch.nn.Module) and of.__module__ == "__main__":
        return "def " + of.__qualname__ + ".forward"
    return ""
"""


@dataclass(frozen=True)
class Observed:
    """The observations of a run.

    `values`: the text of an expression -> the only value that it had, as text. `functions`: the text of a called
    expression -> the qualified name of the script's function. `reached`: executed statements, by their index in
    `ast.walk` of the observed text.
    """

    values: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    reached: frozenset[int] = frozenset()


def instrumented(text: str) -> str:
    """Return the script with code that records and prints the values of its expressions."""
    tree = ast.parse(text)
    places = {id(node): at for at, node in enumerate(ast.walk(tree))}
    _Noting(places).visit(tree)
    shown = f"import json; print('\\n{MARK}' + json.dumps([_driftline_seen, [*_driftline_reached]]))"
    ending = ast.Try(tree.body, [], [], ast.parse(shown).body)
    first = ast.parse(_PRELUDE).body
    return ast.unparse(ast.fix_missing_locations(ast.Module([*first, ending], [])))


class _Noting(ast.NodeTransformer):
    """Wraps every expression in a recording call, and puts a mark before every statement."""

    def __init__(self, places: dict[int, int]) -> None:
        self._places = places

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:  # type: ignore[override]
        at = self._places.get(id(node))
        if isinstance(node, (ast.JoinedStr, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.match_case)):
            return node
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.body = [one for inner in node.body for one in self._listed(inner)]
            return [self._reached(at), node]
        is_value = isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        self.generic_visit(node)
        if isinstance(node, ast.stmt):
            return [self._reached(at), node]
        if not is_value or isinstance(node, (ast.Starred, ast.Slice, ast.Constant, ast.Lambda)):
            return node
        if isinstance(node, ast.Tuple) and any(isinstance(item, ast.Slice) for item in node.elts):
            return node  # an index such as `[:, 1:]`, which is no expression anywhere else
        given = [ast.Constant(at), cast(ast.expr, node)]
        return ast.Call(ast.Name(_NOTE, ast.Load()), given, [])

    def _listed(self, statement: ast.stmt) -> list[ast.stmt]:
        made = self.visit(statement)
        return made if isinstance(made, list) else [made]  # type: ignore[list-item,return-value]

    def _reached(self, at: int | None) -> ast.stmt:
        return ast.parse(f"_driftline_reached[{at}] = 1").body[0]


def read_observed(text: str, printed: str) -> Observed:
    """Parse the output of the instrumented form of a text."""
    line = next((line for line in reversed(printed.splitlines()) if line.startswith(MARK)), "")
    try:
        seen, reached = json.loads(line.removeprefix(MARK))
    except ValueError:
        return Observed()
    nodes = list(ast.walk(ast.parse(text)))
    gave: dict[str, set[str]] = {}
    for at, texts in seen.items():
        node = nodes[int(at)]
        if isinstance(node, ast.expr):
            gave.setdefault(ast.unparse(node), set()).update(texts)
    single = {told: next(iter(texts)) for told, texts in gave.items() if len(texts) == 1}
    return Observed(
        {told: value for told, value in single.items() if value and value[:4] != "def " and len(value) < MOST_TEXT},
        {told: value[4:] for told, value in single.items() if value.startswith("def ")},
        frozenset(_with_imports(nodes, reached)),
    )


def _with_imports(nodes: list[ast.AST], reached: Iterable[int]) -> list[int]:
    kept = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
    return [*reached, *(at for at, node in enumerate(nodes) if isinstance(node, kept))]
