"""One name, one thing: no class or type alias is defined twice; the glossary and the map of the tests are complete."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import driftline

SOURCES = Path(driftline.__file__).parent
ROOT = SOURCES.parents[1]


def defined(tree: ast.Module) -> Iterator[str]:
    """Classes and type aliases of a module. Type variables mean nothing outside of their module, and do not count."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            is_variable = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypeVar"
            if re.match(r"_?[A-Z]", name) and not name.isupper() and not is_variable:
                yield name


@cache
def types() -> dict[str, list[str]]:
    """The files that define each name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for name in defined(ast.parse(path.read_text())):
            found[name].append(path.relative_to(SOURCES).as_posix())
    return found


def test_no_two_types_have_one_name() -> None:
    assert len(types()) > 500
    twice = {name: places for name, places in types().items() if len(places) > 1}
    assert not twice, "rename one of them, or define it once; docs/explanation/code-names.md lists them"


def test_what_the_glossary_names_is_there() -> None:
    page = (ROOT / "docs" / "explanation" / "code-names.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| `([\w/.]+)` \|$", page, re.MULTILINE)
    assert len(rows) > 20
    names = [name for name, _, _ in rows]
    assert len(names) == len(set(names)), "one meaning for each noun"
    assert [(name, place) for name, _, place in rows if place not in types().get(name, ())] == []
