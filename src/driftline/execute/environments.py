"""Isolated environments, each with one release of a compiler.

`driftline env add onnxruntime==1.15.1` makes a virtualenv with that release and numpy; then `onnxruntime@1.15.1` is a
target like any other. Driftline itself is not installed there: its worker needs only the standard library and numpy.

An environment is built in a folder of its own and renamed when it is finished, so a visible one is complete. A file
lock, which the installer's processes hold as well, keeps two builders of one release apart, and distinguishes a folder
under construction from an abandoned one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from driftline.backends.packages import installing
from driftline.core.announce import Announce
from driftline.core.config import cache_home
from driftline.core.errors import BackendUnavailable, DriftlineError
from driftline.core.private import lock, open_lock, private_folder
from driftline.core.text import did_you_mean
from driftline.execute.installer import Installer, names
from driftline.execute.releases import canonical

_REQUIREMENT = re.compile(r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)==(\d[A-Za-z0-9.!+_-]*)")
_RECORD = "environment.json"
_BUILDING = ".building-"

# Packages that every worker needs: arrays, and the small floats that numpy lacks.
_BASICS = ("numpy", "ml_dtypes")


@dataclass(frozen=True)
class Environment:
    """One installed release of a package, in an environment of its own."""

    package: str
    version: str
    path: str
    extras: tuple[str, ...] = ()
    made: str = ""

    @property
    def python(self) -> str:
        return str(Path(self.path) / "bin" / "python")

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


def list_environments() -> list[Environment]:
    """Return every finished environment, by package and version."""
    found = []
    for record in sorted(_home().glob(f"[!.]*/{_RECORD}")):
        with contextlib.suppress(OSError, ValueError, KeyError):  # removed meanwhile, or made by another program
            value = json.loads(record.read_text())
            extras = tuple(value["extras"])
            path = str(record.parent)  # the cache may have been moved
            found.append(Environment(value["package"], value["version"], path, extras, value.get("made", "")))
    return found


def find_environment(packages: Sequence[str], version: str | None) -> Environment | None:
    """Return the environment with one of these packages, or None; without a version, the newest one."""
    matches = [e for e in list_environments() if e.package in packages and version in (None, e.version)]
    return max(matches, key=lambda e: e.made, default=None)


def require_environment(packages: Sequence[str], version: str) -> Environment:
    """Return the environment of a release. Raises BackendUnavailable if there is none."""
    environment = find_environment(packages, version)
    if environment is None:
        if not packages:
            raise BackendUnavailable(f"This backend has no package of its own, so there is no version {version} of it.")
        have = ", ".join(e.requirement for e in list_environments() if e.package in packages) or "none"
        raise BackendUnavailable(
            f"There is no environment with {packages[0]}=={version} (have: {have})."
            f" Make it with: driftline env add {packages[0]}=={version}"
        )
    return environment


def add_environment(requirement: str, extras: Sequence[str] = (), report: Announce = lambda line: None) -> Environment:
    """Make an environment, check that the package imports there, and record it. An unfinished environment is
    removed."""
    package, version = _parse(requirement)
    for extra in extras:
        if not re.match(r"[A-Za-z0-9]", extra):  # an option of the installer, or an empty text
            raise DriftlineError(f"{extra!r} is not a requirement; write it as in --with onnx==1.14.1.")
    name = f"{package}-{version}"
    existing = _reuse(package, version, extras)
    if existing:
        return existing
    _sweep()
    with _locked(name, report) as held:
        existing = _reuse(package, version, extras)  # another process made it meanwhile
        if existing:
            return existing
        final, building = _home() / name, _home() / f"{_BUILDING}{name}"
        known = installing(package)
        wanted = (*extras, *(c for c in known.requirements(version) if not names([c]) & names(extras)))
        try:
            installer = Installer(building, held, report)
            installer.install([f"{package}=={version}", *(b for b in _BASICS if b not in names(wanted)), *wanted])
            installer.check_import(known.module or package.replace("-", "_"))
            environment = Environment(package, version, str(final), wanted, time.strftime("%Y-%m-%dT%H:%M:%S"))
            (building / _RECORD).write_text(json.dumps(asdict(environment), indent=1))
            shutil.rmtree(final, ignore_errors=True)
            # Only `bin/python` is used, and it finds its packages relative to itself: a rename is safe.
            os.rename(building, final)
            return environment
        finally:
            shutil.rmtree(building, ignore_errors=True)


def remove_environment(requirement: str) -> None:
    """Delete the environment of a requirement. Raises DriftlineError if there is none."""
    package, version = _parse(requirement)
    known = {e.requirement: e for e in list_environments()}
    wanted = f"{package}=={version}"
    if wanted not in known:
        raise DriftlineError(
            f"There is no environment {wanted!r}.{did_you_mean(wanted, known)} Known: {', '.join(known) or 'none'}."
        )
    path = Path(known[wanted].path)
    (path / _RECORD).unlink()  # first, so that a half-removed environment does not look finished
    shutil.rmtree(path)


def folder_size(path: str) -> int:
    """Return the size in bytes of all files below a folder."""
    return sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file() and not f.is_symlink())


def _home() -> Path:
    return cache_home() / "environments"


def _parse(requirement: str) -> tuple[str, str]:
    match = _REQUIREMENT.fullmatch(requirement.strip())
    if not match:
        raise DriftlineError(f"{requirement!r} is not of the form package==version, as in onnxruntime==1.15.1.")
    return canonical(match[1]), match[2]


def _reuse(package: str, version: str, extras: Sequence[str]) -> Environment | None:
    existing = find_environment([package], version)
    missing = [extra for extra in extras if existing and extra not in existing.extras]
    if existing and missing:
        raise DriftlineError(
            f"{existing.requirement} is there already, without {' and '.join(missing)};"
            f" to make it anew, first run: driftline env remove {existing.requirement}"
        )
    return existing


@contextlib.contextmanager
def _locked(name: str, report: Announce) -> Iterator[int]:
    """Hold the lock of one release. The kernel frees the lock when the last process that holds it ends."""
    held = _open_lock(name)
    try:
        try:
            lock(held)
        except BlockingIOError:
            report(f"another process is making {name}; waiting for it")
            lock(held, wait=True)
        yield held
    finally:
        os.close(held)


def _open_lock(name: str) -> int:
    folder = _home() / ".locks"
    private_folder(folder)
    return open_lock(folder / name)


def _sweep() -> None:
    """Delete unfinished folders of killed builders: those whose lock is free."""
    for folder in _home().glob(f"{_BUILDING}*"):
        held = _open_lock(folder.name.removeprefix(_BUILDING))
        try:
            lock(held)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(held)
