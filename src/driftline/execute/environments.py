"""Other versions: isolated environments, each holding one release of a compiler.

`driftline env add onnxruntime==1.15.1` makes a virtualenv with that release and numpy; then `onnxruntime@1.15.1` is a
target like any other. Driftline itself is not installed there: its worker needs the standard library and numpy only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from driftline.core.config import cache_home
from driftline.core.errors import BackendUnavailable, DriftlineError
from driftline.core.text import did_you_mean, first_line

_REQUIREMENT = re.compile(r"^([A-Za-z0-9][\w.-]*)==([\w.!+-]+)$")
_RECORD = "environment.json"

# What else a release needs to be usable here, when its own metadata does not say it.
_COMPANIONS = {
    "litert-torch": ("torch==2.13.0",),
}
# The module that shows whether an installed release works at all.
_MODULES = {
    "tensorflow-cpu": "tensorflow",
    "apache-tvm": "tvm",
    "litert-torch": "litert_torch",
    "iree-base-compiler": "iree.compiler",
    "ai-edge-litert": "ai_edge_litert",
}


@dataclass(frozen=True)
class Environment:
    """One installed release."""

    package: str
    version: str
    path: str
    extras: tuple[str, ...] = ()

    @property
    def python(self) -> str:
        return str(Path(self.path) / "bin" / "python")

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


def list_environments() -> list[Environment]:
    """Every finished environment, by package and version."""
    found = []
    for record in sorted(_home().glob(f"*/{_RECORD}")):
        value = json.loads(record.read_text())
        found.append(Environment(**{**value, "extras": tuple(value["extras"])}))
    return found


def find_environment(packages: Sequence[str], version: str | None) -> Environment | None:
    """The environment with one of these packages; without a version, the newest made."""
    matches = [e for e in list_environments() if e.package in packages and version in (None, e.version)]
    return max(matches, key=lambda e: os.path.getmtime(e.path), default=None)


def require_environment(packages: Sequence[str], version: str) -> Environment:
    environment = find_environment(packages, version)
    if environment is None:
        have = ", ".join(e.requirement for e in list_environments() if e.package in packages) or "none"
        raise BackendUnavailable(
            f"There is no environment with {packages[0]}=={version} (have: {have})."
            f" Make it with: driftline env add {packages[0]}=={version}"
        )
    return environment


def add_environment(
    requirement: str, extras: Sequence[str] = (), report: Callable[[str], None] = lambda line: None
) -> Environment:
    """Make an environment, check that the package imports there, and record it. Nothing half-made is left behind."""
    match = _REQUIREMENT.match(requirement)
    if not match:
        raise DriftlineError(f"{requirement!r} is not of the form package==version, as in onnxruntime==1.15.1.")
    package, version = match.groups()
    existing = find_environment([package], version)
    if existing:
        return existing
    final = _home() / f"{package}-{version}"
    building = _home() / f".building-{package}-{version}-{os.getpid()}"
    extras = (*extras, *(c for c in _COMPANIONS.get(package, ()) if c.split("==")[0] not in _names(extras)))
    try:
        _build(building, [requirement, "numpy", *extras], report)
        _make_importable(building, package, requirement, extras, report)
        environment = Environment(package, version, str(final), tuple(extras))
        shutil.rmtree(final, ignore_errors=True)
        _move_environment(building, final)
        (final / _RECORD).write_text(json.dumps(asdict(environment), indent=1))
        return environment
    finally:
        shutil.rmtree(building, ignore_errors=True)


def remove_environment(requirement: str) -> None:
    known = {e.requirement: e for e in list_environments()}
    if requirement not in known:
        raise DriftlineError(
            f"There is no environment {requirement!r}.{did_you_mean(requirement, known)}"
            f" Known: {', '.join(known) or 'none'}."
        )
    shutil.rmtree(known[requirement].path)


def _home() -> Path:
    return cache_home() / "environments"


def _names(requirements: Sequence[str]) -> set[str]:
    return {re.split(r"[=<>!~\[]", r)[0].lower() for r in requirements}


def _build(folder: Path, requirements: list[str], report: Callable[[str], None]) -> None:
    """uv where it works, because it is fast; pip otherwise, because it follows the user's pip configuration."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if uv and "torch" not in _names(requirements):  # torch builds often come from places that only pip is told of
        report(f"installing {', '.join(requirements)} with uv")
        made = _run([uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, str(folder)])
        if made.returncode == 0:
            python = str(folder / "bin" / "python")
            if _run([uv, "pip", "install", "--quiet", "--python", python, *requirements]).returncode == 0:
                return
        shutil.rmtree(folder, ignore_errors=True)
    report(f"installing {', '.join(requirements)} with pip")
    _checked([sys.executable, "-m", "venv", str(folder)], "the virtualenv could not be made")
    _pip_install(folder, requirements)


def _pip_install(folder: Path, requirements: Sequence[str]) -> None:
    python = str(folder / "bin" / "python")
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    _checked(command, f"{' '.join(requirements)} could not be installed")


def _make_importable(
    folder: Path, package: str, requirement: str, extras: Sequence[str], report: Callable[[str], None]
) -> None:
    """Old releases were built against numpy 1 and do not say so: try the import, and step back if it fails."""
    module = _MODULES.get(package, package.replace("-", "_"))
    python = str(folder / "bin" / "python")
    probe = [python, "-c", f"import numpy, {module}"]
    attempt = _run(probe)
    if attempt.returncode and "numpy" in attempt.stderr.lower() and "numpy" not in _names(extras):
        report("the release does not import with numpy 2; taking numpy 1")
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
        if uv:
            _run([uv, "pip", "install", "--quiet", "--python", python, "numpy<2", requirement, *extras])
        else:
            _pip_install(folder, ["numpy<2", requirement, *extras])
        attempt = _run(probe)
    if attempt.returncode:
        last = attempt.stderr.strip().splitlines()[-1:] or ["no message"]
        raise DriftlineError(f"{requirement} installs but does not import: {first_line(last[0])}.")


def _move_environment(building: Path, final: Path) -> None:
    """Only `bin/python` is used, and it finds its packages relative to itself: a rename is safe."""
    os.rename(building, final)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "1"}
    variables.pop("PYTHONPATH", None)
    return subprocess.run(command, capture_output=True, text=True, env=variables, stdin=subprocess.DEVNULL)


def _checked(command: Sequence[str], complaint: str) -> None:
    done = _run(command)
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower()]
        detail = first_line(lines[-1] if lines else done.stderr)
        raise DriftlineError(f"In the new environment {complaint}: {detail}")


def folder_size(path: str) -> int:
    return sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file() and not f.is_symlink())


def made_at(environment: Environment) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(os.path.getmtime(environment.path)))
