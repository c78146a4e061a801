"""Scenario functions: functions that take `compile`, written by hand, with several steps.

    def scenario(compile):
        model = Counter()
        step = compile(model)
        step(torch.ones(3))
        model.scale = 2.0
        step(torch.ones(3))

Such a function is judged as a script that consists of its file and the call `scenario(torch.compile)`.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.scenarios.script import UserScript, read_script

PARAMETER = "compile"


def names_a_scenario(program: str) -> bool:
    """True for `FILE.py:NAME` if the file has a function of that name whose only parameter is `compile`."""
    file, name = _parted(program)
    if not name or not Path(file).is_file():
        return False
    try:
        return _takes_compile(_functions(read_script(Path(file))).get(name))
    except DriftlineError:
        return False


def read_program(program: str) -> UserScript:
    """Read a script, or convert a function that takes `compile` (`FILE.py:NAME`) to a script."""
    file, name = _parted(program)
    if not name:
        return read_script(Path(program))
    script = read_script(Path(file))
    functions = _functions(script)
    if name not in functions:
        hint = did_you_mean(name, functions)
        raise DriftlineError(f"{file} has no function {name!r}.{hint}")
    if not _takes_compile(functions[name]):
        raise DriftlineError(f"{program}: a scenario is a function with one parameter, `{PARAMETER}`.")
    return replace(script, text=f"{_without_main(script.text)}\n\nimport torch\n\n{name}(torch.compile)\n")


def _parted(program: str) -> tuple[str, str]:
    """Split `FILE.py:NAME` into file and name. The name is empty if there is none."""
    file, _, name = program.rpartition(".py:")
    return (f"{file}.py", name) if file else (program, "")


def _functions(script: UserScript) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(script.text).body if isinstance(node, ast.FunctionDef)}


def _takes_compile(function: ast.FunctionDef | None) -> bool:
    if function is None:
        return False
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [one.arg for one in every] == [PARAMETER] and not (given.vararg or given.kwarg or given.kwonlyargs)


def _without_main(text: str) -> str:
    """Return the text with `if __name__ == "__main__":` blocks blanked, because they would run in the script."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.If) and any(
            isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
        ):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            lines[first:last] = [""] * (last - first)
    return "\n".join(lines)
