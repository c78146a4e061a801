"""Remove statements, or unwrap them from the block around them."""

from __future__ import annotations

import ast
from collections.abc import Collection

from driftline.diagnose.reduce.scripts.edits import BLOCKS, Edit, Replacement, names_loaded


def statements(tree: ast.Module) -> list[tuple[int, ast.stmt]]:
    """Return all statements in the order of the text, each with its index in `ast.walk`."""
    found = [(at, node) for at, node in enumerate(ast.walk(tree)) if isinstance(node, ast.stmt)]
    return sorted(found, key=lambda one: (one[1].lineno, one[1].col_offset))


def deletions(tree: ast.Module) -> list[Edit]:
    """Return edits that remove one statement each."""
    return [Edit(at, lambda node: None) for at, _ in statements(tree)]


def members(tree: ast.Module) -> list[Edit]:
    """Return edits that remove a function, a class, or an assignment to an attribute or element."""
    return [
        Edit(at, lambda node: None)
        for at, node in statements(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        or (isinstance(node, (ast.Assign, ast.AugAssign)) and not isinstance(_target(node), ast.Name))
    ]


def _target(node: ast.Assign | ast.AugAssign) -> ast.expr:
    return node.targets[0] if isinstance(node, ast.Assign) else node.target


def unreached(tree: ast.Module, reached: Collection[int]) -> list[Edit]:
    """Return edits that remove statements which were never executed. `reached`: indices in `ast.walk`."""
    return [Edit(at, lambda node: None) for at, _ in statements(tree) if at not in reached]


def unwrappings(tree: ast.Module) -> list[Edit]:
    """Return edits that replace a block by its statements; a loop becomes one round of it."""
    edits = []
    for at, node in statements(tree):
        for name in (*BLOCKS, "handlers"):
            inside = getattr(node, name, None)
            if inside and not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                edits.append(Edit(at, lambda node, name=name: _opened(node, name)))  # type: ignore[misc]
    return edits


def _opened(node: ast.AST, name: str) -> Replacement:
    if name == "handlers":
        return [one for handler in node.handlers for one in handler.body]  # type: ignore[attr-defined]
    body: list[ast.stmt] = getattr(node, name)
    if isinstance(node, ast.For) and name == "body":
        wanted = names_loaded(ast.Module(body, []))
        if not any(isinstance(one, ast.Name) and one.id in wanted for one in ast.walk(node.target)):
            return body
        first = ast.Call(ast.Name("next", ast.Load()), [_iterator(node.iter)], [])
        return [ast.Assign([node.target], first), *body]
    if isinstance(node, ast.With):
        return [
            *(ast.Assign([one.optional_vars], one.context_expr) for one in node.items if one.optional_vars),
            *body,
        ]
    return body


def _iterator(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("iter", ast.Load()), [value], [])


def shorter_loops(tree: ast.Module) -> list[Edit]:
    """Return edits that replace `range`, `enumerate` and `zip` by `range(2)`."""
    return [
        Edit(at, lambda node: ast.parse("range(2)", mode="eval").body)
        for at, node in enumerate(ast.walk(tree))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("range", "enumerate", "zip")
        and ast.unparse(node) != "range(2)"
    ]
