"""Measures of the source code: size, long functions, many parameters, complexity, `Any`, modules that no test names.

`python tests/house/measures.py` prints the figures beside their limits (`limits.toml`), and `--list NAME` the places
behind one figure. A test keeps the figures from rising.
"""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from radon.visitors import ComplexityVisitor, Function

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "driftline"
LIMITS = Path(__file__).with_name("limits.toml")

LONG, MANY, GRADE_C, SMALL = 60, 6, 20, 60

TITLES = {
    "lines": "lines of source",
    "long_functions": f"functions of more than {LONG} lines",
    "many_parameters": f"functions with more than {MANY} parameters",
    "complex_functions": f"functions of a complexity above {GRADE_C} (grade D or worse)",
    "any": "uses of Any",
    "untested_modules": f"modules of {SMALL} lines or more that no test imports and tests/README.md does not name",
}


@dataclass(frozen=True)
class Module:
    path: Path
    text: str

    @property
    def name(self) -> str:
        parts = self.path.relative_to(SOURCE.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def place(self) -> str:
        return str(self.path.relative_to(ROOT))


def read_modules() -> list[Module]:
    return [Module(path, path.read_text()) for path in sorted(SOURCE.rglob("*.py"))]


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def blocks_of(tree: ast.Module) -> list[Function]:
    """List the functions and methods of a module with their complexity."""
    found = ComplexityVisitor.from_ast(tree)
    return [*found.functions, *(method for one in found.classes for method in one.methods)]


def parameter_count(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the parameters of a function, without `self` and `cls`."""
    found = function.args
    named = [one.arg for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)]
    rest = [one.arg for one in (found.vararg, found.kwarg) if one]
    return len(named) + len(rest) - (named[:1] in (["self"], ["cls"]))


def find_places(modules: list[Module]) -> dict[str, list[str]]:
    """List the places behind each figure but the number of lines."""
    places: dict[str, list[str]] = {name: [] for name in TITLES if name != "lines"}
    tested = tested_names()
    for module in modules:
        tree = ast.parse(module.text)
        for function in functions_of(tree):
            place = f"{module.place}:{function.lineno} {function.name}"
            if (length := (function.end_lineno or 0) - function.lineno + 1) > LONG:
                places["long_functions"].append(f"{place}: {length} lines")
            if (count := parameter_count(function)) > MANY:
                places["many_parameters"].append(f"{place}: {count} parameters")
        places["complex_functions"] += [
            f"{module.place}:{block.lineno} {block.name}: {block.complexity}"
            for block in blocks_of(tree)
            if block.complexity > GRADE_C
        ]
        lines = module.text.splitlines()
        places["any"] += [
            f"{module.place}:{number}"
            for number, line in enumerate(lines, 1)
            for _ in re.findall(r"\bAny\b", line)
            if not line.startswith("from typing")
        ]
        if len(lines) >= SMALL and module.name not in tested:
            places["untested_modules"].append(module.place)
    return places


def tested_names() -> set[str]:
    """Name the modules that a test imports, or that the map of the tests names by their paths."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for module, names in re.findall(r"^\s*from (driftline[\w.]*) import ([^(\n]+)", path.read_text(), re.M):
            found |= {module, *(f"{module}.{name.split()[0]}" for name in names.split(",") if name.strip())}
        found |= set(re.findall(r"^\s*(?:from|import) (driftline[\w.]*)", path.read_text(), re.M))
    readme = ROOT / "tests" / "README.md"
    if readme.exists():
        paths = re.findall(r"\b([\w/]+)\.py\b", readme.read_text())
        found |= {"driftline." + path.replace("/", ".") for path in paths}
    return found


def measure() -> dict[str, int]:
    modules = read_modules()
    places = find_places(modules)
    return {"lines": sum(len(one.text.splitlines()) for one in modules)} | {k: len(v) for k, v in places.items()}


def read_limits() -> dict[str, int]:
    return tomllib.loads(LIMITS.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the source code.")
    parser.add_argument("--list", choices=[name for name in TITLES if name != "lines"], help="the places of a figure")
    chosen = parser.parse_args().list
    if chosen:
        print(*find_places(read_modules())[chosen], sep="\n")
        return
    limits = read_limits()
    for name, figure in measure().items():
        print(f"{figure:8,} {TITLES[name]} (limit {limits[name]:,})")


if __name__ == "__main__":
    main()
