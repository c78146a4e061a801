"""Splits the Python text of a program: its definitions, how its factory makes the model, and the inputs.

A script that says `function = Model().eval()` is easier to read than one that calls a factory. That works for factories
made of plain statements and functions that end in `return model, (input, ...)`; others are called as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from driftline.programs.reached import reached_statements

_SEEDING = re.compile(r"\b\w*seed\(")


@dataclass(frozen=True)
class FactoryText:
    """A program's file in parts. Every part is text as its author wrote it."""

    imports: tuple[str, ...]
    definitions: tuple[str, ...]  # functions, classes and constants beside the factory and in it
    making: tuple[tuple[frozenset[str], str], ...]  # statements of the factory, with the names that each binds
    model: str
    inputs: tuple[str, ...]
    free: frozenset[str] = frozenset()  # names that the functions in the factory take from around them

    def needed(self, *expressions: str) -> list[str]:
        """Return, in order, the factory's statements that these expressions and the inner functions depend on."""
        wanted = names_in(expressions) | self.free
        kept = []
        for bound, text in reversed(self.making):
            if bound & wanted or _SEEDING.search(text):
                wanted |= names_in([text])
                kept.append(text)
        return kept[::-1]


def read_factory(text: str, name: str) -> FactoryText | None:
    """Return the parts of a file, without the definitions that the factory does not reach; `None` if the factory has
    more than plain statements."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    factory = _plain_factory(tree, name)
    if factory is None:
        return None
    nested = [node for node in factory.body[:-1] if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    making = [node for node in factory.body[:-1] if node not in nested and not _is_remark(node)]
    others = [n for n in reached_statements(tree, text, name) if n is not factory and not _is_remark(n)]
    returned = _returned(factory.body[-1])
    if returned is None or not _is_plain(making) or _has_future(others) or not _can_stand_outside(nested, others):
        return None
    used = _names_read([*making, *nested, returned[0], *returned[1]])
    nested = [node for node in nested if node.name in used]
    return FactoryText(
        tuple(_sources(text, others, imports=True)),
        (*_sources(text, others, imports=False), *(_dedented(text, node) for node in nested)),
        tuple((_bound(node), _dedented(text, node)) for node in making),
        _source(text, returned[0]),
        tuple(_source(text, part) for part in returned[1]),
        frozenset().union(*map(_free_names, nested)),
    )


def _sources(text: str, statements: Sequence[ast.stmt], *, imports: bool) -> list[str]:
    """Return the text of the import statements, or of all other statements."""
    return [_source(text, node) for node in statements if isinstance(node, (ast.Import, ast.ImportFrom)) is imports]


def _names_read(nodes: Sequence[ast.AST]) -> set[str]:
    return {inner.id for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _is_plain(making: Sequence[ast.stmt]) -> bool:
    return all(isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)) for node in making)


def _has_future(statements: Sequence[ast.stmt]) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in statements)


def _plain_factory(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """Return the function of that name, or `None` if it has arguments or decorators or does not exist."""
    factory = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    return None if factory is None or factory.args.args or factory.decorator_list else factory


def _returned(last: ast.stmt) -> tuple[ast.expr, list[ast.expr]] | None:
    """Return the model and the inputs of `return model, (input, ...)`; `None` for any other statement."""
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple) or len(last.value.elts) != 2:
        return None
    model, given = last.value.elts
    if not isinstance(given, (ast.Tuple, ast.List)) or any(isinstance(e, ast.Starred) for e in given.elts):
        return None
    return model, given.elts


def _can_stand_outside(nested: Sequence[ast.FunctionDef | ast.ClassDef], others: Sequence[ast.stmt]) -> bool:
    """True if functions and classes inside a factory can be moved to the module: their names are free there, and
    nothing is computed where they are defined."""
    imported = [one for node in others if isinstance(node, (ast.Import, ast.ImportFrom)) for one in node.names]
    taken = {name for node in others for name in (getattr(node, "name", ""), *_bound(node))}
    taken |= {(one.asname or one.name).partition(".")[0] for one in imported}
    members = [part for node in nested if isinstance(node, ast.ClassDef) for part in node.body]
    plain = all(isinstance(part, ast.FunctionDef) or _is_remark(part) for part in members)
    return plain and not any(map(_computes_early, nested)) and taken.isdisjoint(node.name for node in nested)


def _computes_early(definition: ast.AST) -> bool:
    """True if a definition has decorators or default values, or writes to variables of the function around it."""
    return any(
        isinstance(part, ast.Nonlocal)
        or getattr(part, "decorator_list", ())
        or (isinstance(part, ast.arguments) and (part.defaults or part.kw_defaults))
        for part in ast.walk(definition)
    )


def _free_names(node: ast.AST) -> set[str]:
    """Return the names that a function reads and does not bind."""
    names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    own = {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    bound = {name.id for name in names if not isinstance(name.ctx, ast.Load)}
    return {name.id for name in names} - own - bound


def used_imports(imports: Iterable[str], text: str) -> list[str]:
    """Return the import lines of which the text uses a name, and those that are imported for their side effects."""
    words = set(re.findall(r"\w+", text))
    kept = []
    for line in dict.fromkeys(imports):
        node = ast.parse(line).body[0]
        assert isinstance(node, (ast.Import, ast.ImportFrom))
        names = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        dotted = isinstance(node, ast.Import) and any("." in a.name and not a.asname for a in node.names)
        if names & words or dotted or "*" in names:
            kept.append(line)
    return kept


def names_in(expressions: Iterable[str]) -> set[str]:
    return {word for text in expressions for word in re.findall(r"[A-Za-z_]\w*", text)}


def draws_random(parts: Sequence[str]) -> bool:
    """True if the text makes numbers that depend on a seed. Layers of torch draw their weights."""
    return bool(
        re.search(r"rand|\bnn\.(?!Module\b|Parameter\b)[A-Z]|normal|uniform|bernoulli|dropout|init\.", "\n".join(parts))
    )


def writes_in_place(parts: Sequence[str]) -> bool:
    """True if running this text may change its inputs; each run then needs its own copy."""
    # An embedding with a largest norm scales the rows of its weights that are too long, in place.
    writing = r"[^\W_]_\(|\]\s*=[^=]|[-+*/%|&^@]=|\b(?:out|max_norm)=|\binplace=True|setitem|__i(?!nit__)\w+__"
    return bool(re.search(writing, "\n".join(parts)))


def without_last_name(text: str) -> str:
    """Return the text with `x_out = ...; return x_out` at its end shortened to `return ...`."""
    return re.sub(r"\n( +)(\w+_out) = (.+)\n\1return \2$", r"\n\1return \3", text.rstrip())


def without_usual_dtypes(text: str) -> str:
    """Return the text without dtypes that torch chooses by itself, in `torch.tensor` calls."""
    text = re.sub(r"(torch\.tensor\([^()]*\b(?:\d+\.\d|nan|inf)[^()]*), dtype=torch\.float32\)", r"\1)", text)
    return re.sub(r"(torch\.tensor\([-\d\[\], ]+), dtype=torch\.int64\)", r"\1)", text)


def _is_remark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _bound(node: ast.stmt) -> frozenset[str]:
    """Return the names that a statement binds or changes: x of `x = 1`, of `x[0] = 1`, of `x.eval()`."""
    found: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        found = list(node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        found = [node.target]
    elif isinstance(node, ast.Expr):
        found = [node.value]
    return frozenset(n.id for part in found for n in ast.walk(part) if isinstance(n, ast.Name))


def _source(text: str, node: ast.stmt | ast.expr) -> str:
    found = ast.get_source_segment(text, node) or ast.unparse(node)
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.decorator_list:
        found = "".join(f"@{ast.get_source_segment(text, d)}\n" for d in node.decorator_list) + found
    return found


def _dedented(text: str, node: ast.stmt) -> str:
    """Return a statement of the factory's body with its further lines dedented, for the module level."""
    lines = _source(text, node).splitlines()
    indent = " " * node.col_offset
    return "\n".join([lines[0], *(line.removeprefix(indent) for line in lines[1:])])
