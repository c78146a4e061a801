"""Make expressions smaller: observed values, parts in place of the whole, fewer arguments, simpler numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from driftline.diagnose.reduce.scripts.edits import Edit
from driftline.diagnose.reduce.scripts.observed import Observed

PLAIN = (1, 0, 2)  # numbers that a reader need not look at


def _values(tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    """Yield expressions that are read, with their index in `ast.walk`; the outermost first. Arguments of compilation
    are left out, so that the script keeps failing with its own backend.
    """
    kept: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("compile"):
            kept |= {id(node.func)} | {
                id(one.value) for one in node.keywords if one.arg in ("backend", "mode", "options")
            }
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            kept |= {id(one) for one in node.decorator_list}
        if isinstance(node, ast.JoinedStr):
            kept |= {id(one) for one in ast.walk(node) if one is not node}
    for at, node in enumerate(ast.walk(tree)):
        is_value = isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        if is_value and id(node) not in kept and not isinstance(node, (ast.Slice, ast.Starred)):
            yield at, node  # type: ignore[misc]


def observed_values(tree: ast.Module, observed: Observed, *, tensors: bool) -> list[Edit]:
    """Replace expressions by the value that they had in a run; tensors by a tensor of the same size."""
    edits = []
    for at, node in _values(tree):
        value = observed.values.get(ast.unparse(node))
        if not value or ("torch." in value) is not tensors or isinstance(node, ast.Constant):
            continue
        is_effect = value == "None" and isinstance(node, ast.Call)
        is_tensor = tensors and isinstance(node, ast.Name)  # its value can be replaced where it is made
        if not is_effect and not is_tensor and value != ast.unparse(node):
            edits.append(_put(at, value))
    return edits


def _put(at: int, text: str) -> Edit:
    return Edit(at, lambda node: ast.parse(text, mode="eval").body)


def parts(tree: ast.Module) -> list[Edit]:
    """Replace an expression by one of its parts."""
    edits = []
    for at, node in _values(tree):
        for choice in range(len(_parts(node))):
            edits.append(Edit(at, lambda node, choice=choice: _parts(node)[choice]))  # type: ignore[misc]
    return edits


def _parts(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Call(func=function, args=arguments, keywords=keywords):
            inside = [one.value if isinstance(one, ast.Starred) else one for one in arguments]
            owner = [function.value] if isinstance(function, ast.Attribute) and not _is_module(function.value) else []
            said = [] if ast.unparse(function).endswith("compile") else [one.value for one in keywords]
            return [*owner, *inside, *said]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.BoolOp(values=values):
            return list(values)
        case ast.Compare(left=left, comparators=others):
            return [ast.Constant(True), ast.Constant(False), left, *others]
        case ast.IfExp(body=body, orelse=other):
            return [body, other]
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner) | ast.Attribute(value=inner):
            return [] if _is_module(inner) else [inner]
        case ast.Tuple(elts=elements) | ast.List(elts=elements) if elements:
            return [one for one in elements if not isinstance(one, ast.Starred)]
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return [node.generators[0].iter, element]
        case ast.Dict(values=values):
            return list(values)
    return []


def _is_module(node: ast.expr) -> bool:
    return ast.unparse(node).startswith(("torch", "F.", "math", "np"))


def fewer_elements(tree: ast.Module) -> list[Edit]:
    """Remove one element, argument or keyword."""
    edits = []
    for at, node in enumerate(ast.walk(tree)):
        for name, place in _lists(node):
            edits.append(Edit(at, lambda node, name=name, place=place: _without(node, name, place)))  # type: ignore[misc]
    return edits


def _lists(node: ast.AST) -> list[tuple[str, int]]:
    """Return the lists of a node that can lose an element, each with an index into it."""
    if isinstance(node, ast.Call):
        compiles = ast.unparse(node.func).endswith("compile")
        kept = ("backend", "mode", "options") if compiles else ()
        keywords = [("keywords", place) for place, one in enumerate(node.keywords) if one.arg not in kept]
        return [*keywords, *(("args", place) for place in range(len(node.args)) if not compiles)]
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return [("elts", place) for place in range(len(node.elts))]
    if isinstance(node, ast.Dict):
        return [("keys", place) for place in range(len(node.keys))]
    if isinstance(node, ast.ClassDef):
        return [("bases", place) for place in range(len(node.bases))] + [("decorator_list", 0)] * bool(
            node.decorator_list
        )
    if isinstance(node, ast.FunctionDef):
        return [("decorator_list", place) for place in range(len(node.decorator_list))]
    return []


def _without(node: ast.AST, name: str, place: int) -> ast.AST:
    del getattr(node, name)[place]
    if isinstance(node, ast.Dict):
        del node.values[place]
    return node


def plainer_constants(tree: ast.Module, number: int) -> list[Edit]:
    """Replace numbers by one small number, and strings by an empty one."""
    edits = []
    for at, node in _values(tree):
        if isinstance(node, ast.Constant) and _is_rough(node.value):
            edits.append(_put(at, "''" if isinstance(node.value, str) else str(number)))
    return edits


def _is_rough(value: object) -> bool:
    """True for a non-empty string, and for a number other than 0, 1 and 2."""
    if isinstance(value, str):
        return bool(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value not in PLAIN


def constants(tree: ast.Module) -> list[Edit]:
    """Replace an expression by a plain constant."""
    return [
        _put(at, text)
        for at, node in _values(tree)
        if isinstance(node, (ast.Call, ast.BinOp, ast.Subscript, ast.Attribute)) and not _is_module_path(node)
        for text in ("1", "torch.ones(1)")
    ]


def _is_module_path(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and _is_module(node)
