"""What pyproject.toml names is used, and the licence of all that is installed is listed."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))

licences = importlib.import_module("licences")
dependencies, listed = licences.dependencies, licences.listed

# Packages that no file imports, and what needs them.
NOT_IMPORTED = {
    "apache-tvm-ffi": "TVM imports it; pinned, since newer ones break it",
    "expecttest": "torch's own tests of operators import it",
    "hatchling": "builds the wheel",
    "import-linter": "make lint",
    "jaxlib": "jax imports it",
    "mypy": "make lint",
    "pytest-rerunfailures": "make test",
    "pytest-timeout": "make test",
    "pytest-xdist": "make test",
    "python-multipart": "Starlette reads forms with it",
    "ruff": "make lint",
    "scipy": "jax imports it",
    "torchao": "ExecuTorch imports it",
    "zensical": "makes the HTML of the site",
    "towncrier": "make changelog",
    "uv": "installs other releases of a compiler",
}


def imported_words() -> set[str]:
    """Every name that follows `import` or `from`, or stands alone in a string, in a Python file."""
    found: set[str] = set()
    for folder in ("src", "tests", "benchmarks", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8", errors="replace")
            found.update(re.findall(r"^\s*(?:from|import) (\w+)", text, re.MULTILINE))
            found.update(re.findall(r"""(?:import_module|importorskip|find_spec)\(["'](\w+)""", text))
            found.update(re.findall(r"""modules=\(["'](\w+)""", text))
    return found


def test_every_dependency_is_imported_somewhere() -> None:
    modules: dict[str, set[str]] = {}
    for module, packages in packages_distributions().items():
        for package in packages:
            modules.setdefault(package.lower().replace("_", "-"), set()).add(module)
    used = imported_words()
    unused = [
        name
        for name in dependencies()
        if name not in NOT_IMPORTED
        and not used & modules.get(name.lower().replace("_", "-"), {name.replace("-", "_")})
        and not any(word in used for word in (name.replace("-", "_"), name.split("-")[0]))
    ]
    assert unused == []


def requirements() -> list[Requirement]:
    """All that pyproject.toml asks for, without the extras of Driftline itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return [found for found in map(Requirement, lines) if found.name != "driftline"]


def test_exact_pins_are_in_constraints_alone() -> None:
    for each in requirements():
        operators = {part.operator for part in each.specifier}
        assert ">=" in operators and not operators & {"==", "==="}, f"{each} is not a range with a lower bound"


def test_every_range_allows_the_release_of_the_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    pins = {name.lower(): version for name, version in pins.items()}
    checked = [each for each in requirements() if each.name.lower() in pins]
    assert len(checked) > 30
    for each in checked:
        assert each.specifier.contains(pins[each.name.lower()]), f"{each} excludes {pins[each.name.lower()]}"


def test_what_is_said_not_to_be_imported_is_still_named() -> None:
    assert set(NOT_IMPORTED) <= set(dependencies())


def test_every_dependency_has_its_licence_listed() -> None:
    known = listed()
    expected = [*dependencies(), *licences.brought()]
    assert len(expected) > 150
    assert sorted(known) == sorted(expected), "run .venv/bin/python docs/site/licences.py"
    assert not [name for name, licence in known.items() if not licence or licence.startswith("not ")]
