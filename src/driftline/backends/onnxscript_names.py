"""The possible names of onnxscript's rules, read from its source files: the parent process does not import it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from driftline.core.text import did_you_mean


def short_name(module: str) -> str:
    """Return a module's name as targets spell it."""
    return module.removeprefix("onnxscript.rewriter.").removeprefix("rules.")


def unknown_rule(name: str) -> str:
    """Return why the installed onnxscript has no rule of this name; empty if it may have one."""
    known = _module_level_names()
    whole, _, number = name.rpartition(".")
    if not known or name in known or (number.isdigit() and whole in known):
        return ""
    near = did_you_mean(name, (other for other in known if "rule" in other.rpartition(".")[2].lower()))
    return f"the installed onnxscript has no rule {name!r}.{near} See driftline patterns list --compilers onnxscript."


@lru_cache(1)
def _module_level_names() -> frozenset[str]:
    """Return the top-level names of the modules below `onnxscript.rewriter`, which include every rule and rule set."""
    found = importlib.util.find_spec("onnxscript")
    names: set[str] = set()
    for place in found.submodule_search_locations or () if found else ():
        for path in Path(place, "rewriter").rglob("*.py"):
            parts = path.relative_to(place).with_suffix("").parts
            module = ".".join(("onnxscript", *(part for part in parts if part != "__init__")))
            names |= {f"{short_name(module)}.{name}" for name in _top_level(path.read_text())}
    return frozenset(names)


def _top_level(text: str) -> Iterator[str]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
