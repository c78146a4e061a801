"""Reads the kernels from a file that Inductor generated, and which graph nodes each computes."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

_HANDLE = re.compile(r"# \[Provenance debug handles\] (?P<handles>.+)$")
_AOT_ID = re.compile(r"^# AOT ID: \['(?P<id>[^']+)'\]", re.MULTILINE)
_LANGUAGES = {"cpp_pybinding": "C++", "cpp": "C++", "triton": "Triton", "cuda": "CUDA", "halide": "Halide"}


@dataclass(frozen=True)
class Kernel:
    """One call of a kernel. `handle` is Inductor's name for the call; kernels of libraries have no source."""

    handle: str
    name: str
    language: str  # C++, Triton, or `library` for a kernel that is not generated
    nodes: tuple[str, ...]  # of the post-grad graph
    lines: tuple[str, ...]  # of the user's source, as `file:line`
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_kernels(
    code: str, nodes: Mapping[str, Sequence[str]], stacks: Mapping[str, Sequence[str]]
) -> tuple[Kernel, ...]:
    """Return the kernels in the order of their calls. `nodes` and `stacks` are Inductor's records for each handle."""
    sources = kernel_sources(code)
    handles = list(dict.fromkeys([*_handles(code), *nodes, *stacks]))
    if not handles:  # a release that does not tell: the generated kernels alone
        handles = list(sources)
    made = []
    for handle in handles:
        name = handle.rpartition(":")[0] or handle
        language, source = sources.get(name, ("library", ""))
        lines = tuple(dict.fromkeys(line for stack in stacks.get(handle, ()) for line in _stack_lines(stack)))
        made.append(Kernel(handle, name, language, tuple(nodes.get(handle, ())), lines, source))
    return tuple(made)


def aot_id(code: str) -> str:
    """Return the id of the graph that this code is for, such as `0_forward`."""
    match = _AOT_ID.search(code)
    return match["id"] if match else ""


def kernel_sources(code: str) -> dict[str, tuple[str, str]]:
    """Return the language and source of each generated kernel, by name."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[str, tuple[str, str]] = {}
    for statement in tree.body:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
            continue
        called = statement.value.func
        name = statement.targets[0].id if isinstance(statement.targets[0], ast.Name) else ""
        if isinstance(called, ast.Attribute) and called.attr in _LANGUAGES and name:
            texts = [a.value for a in statement.value.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            if texts:
                found[name] = (_LANGUAGES[called.attr], max(texts, key=len).strip("\n"))
    return found


def _handles(code: str) -> list[str]:
    return [
        handle.strip()
        for line in code.splitlines()
        if (match := _HANDLE.search(line))
        for handle in match["handles"].split(",")
    ]


def _stack_lines(stack: str) -> list[str]:
    return [f"{file}:{line}" for file, line in re.findall(r'File "([^"]+)", line (\d+)', stack)][-1:]
