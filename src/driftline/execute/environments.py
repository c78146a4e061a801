"""Other versions: isolated environments, each holding one release of a compiler.

`driftline env add onnxruntime==1.15.1` makes a virtualenv with that release and numpy; then `onnxruntime@1.15.1` is a
target like any other. Driftline itself is not installed there: its worker needs the standard library and numpy only.

An environment is built in a folder of its own and renamed when it is finished, so one that can be seen is whole. A file
lock, which the installer's processes hold as well, keeps two builders of the same release apart and tells a folder in
the making from one that was left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from driftline.core.config import cache_home
from driftline.core.errors import BackendUnavailable, DriftlineError
from driftline.core.text import did_you_mean, first_line

_REQUIREMENT = re.compile(r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)==(\d[A-Za-z0-9.!+_-]*)")
_RECORD = "environment.json"
_BUILDING = ".building-"

# What every worker needs: arrays, and the small floats that numpy itself does not know.
_BASICS = ("numpy", "ml_dtypes")
# What else a release needs to be usable here, when its own metadata does not say it.
_COMPANIONS = {
    "apache-tvm": ("onnx",),
    "iree-base-compiler": ("iree-base-runtime=={version}", "onnx"),
    "litert-torch": ("torch==2.13.0",),
}
# The module that shows whether an installed release works at all.
_MODULES = {
    "tensorflow-cpu": "tensorflow",
    "apache-tvm": "tvm",
    "iree-base-compiler": "iree.compiler",
    "onnxruntime-gpu": "onnxruntime",
}

Reporter = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """One installed release."""

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
    """Every finished environment, by package and version."""
    found = []
    for record in sorted(_home().glob(f"[!.]*/{_RECORD}")):
        with contextlib.suppress(OSError, ValueError, KeyError):  # removed meanwhile, or not ours
            value = json.loads(record.read_text())
            extras = tuple(value["extras"])
            path = str(record.parent)  # the cache may have been moved
            found.append(Environment(value["package"], value["version"], path, extras, value.get("made", "")))
    return found


def find_environment(packages: Sequence[str], version: str | None) -> Environment | None:
    """The environment with one of these packages; without a version, the newest made."""
    matches = [e for e in list_environments() if e.package in packages and version in (None, e.version)]
    return max(matches, key=lambda e: e.made, default=None)


def require_environment(packages: Sequence[str], version: str) -> Environment:
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


def add_environment(requirement: str, extras: Sequence[str] = (), report: Reporter = lambda line: None) -> Environment:
    """Make an environment, check that the package imports there, and record it. Nothing half-made is left behind."""
    package, version = _parse(requirement)
    for extra in extras:
        if not re.match(r"[A-Za-z0-9]", extra):  # an option of the installer's, or nothing at all
            raise DriftlineError(f"{extra!r} is not a requirement; write it as in --with onnx==1.14.1.")
    name = f"{package}-{version}"
    existing = _reuse(package, version, extras)
    if existing:
        return existing
    _sweep()
    with _locked(name, report) as lock:
        existing = _reuse(package, version, extras)  # made by somebody else while we waited
        if existing:
            return existing
        final, building = _home() / name, _home() / f"{_BUILDING}{name}"
        companions = [c.format(version=version) for c in _COMPANIONS.get(package, ())]
        wanted = (*extras, *(c for c in companions if not _names([c]) & _names(extras)))
        try:
            builder = _Builder(building, lock, report)
            builder.install([f"{package}=={version}", *(b for b in _BASICS if b not in _names(wanted)), *wanted])
            builder.check_import(_MODULES.get(package, package.replace("-", "_")))
            environment = Environment(package, version, str(final), wanted, time.strftime("%Y-%m-%dT%H:%M:%S"))
            (building / _RECORD).write_text(json.dumps(asdict(environment), indent=1))
            shutil.rmtree(final, ignore_errors=True)
            # Only `bin/python` is used, and it finds its packages relative to itself: a rename is safe.
            os.rename(building, final)
            return environment
        finally:
            shutil.rmtree(building, ignore_errors=True)


def remove_environment(requirement: str) -> None:
    package, version = _parse(requirement)
    known = {e.requirement: e for e in list_environments()}
    wanted = f"{package}=={version}"
    if wanted not in known:
        raise DriftlineError(
            f"There is no environment {wanted!r}.{did_you_mean(wanted, known)} Known: {', '.join(known) or 'none'}."
        )
    path = Path(known[wanted].path)
    (path / _RECORD).unlink()  # first: what is half removed must not look finished
    shutil.rmtree(path)


def folder_size(path: str) -> int:
    """Bytes of all files below a folder."""
    return sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file() and not f.is_symlink())


def _home() -> Path:
    return cache_home() / "environments"


def _parse(requirement: str) -> tuple[str, str]:
    match = _REQUIREMENT.fullmatch(requirement.strip())
    if not match:
        raise DriftlineError(f"{requirement!r} is not of the form package==version, as in onnxruntime==1.15.1.")
    return _canonical(match[1]), match[2]


def _canonical(name: str) -> str:
    """Package indexes take `ONNX_Runtime` and `onnx-runtime` for the same name; so do we."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _names(requirements: Sequence[str]) -> set[str]:
    return {_canonical(re.split(r"[=<>!~\[; ]", r)[0]) for r in requirements} | {
        re.split(r"[=<>!~\[; ]", r)[0].lower() for r in requirements
    }


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
def _locked(name: str, report: Reporter) -> Iterator[int]:
    """Hold the lock of one release. It is freed by the kernel when the last process that holds it ends, however."""
    lock = _open_lock(name)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"another process is making {name}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _open_lock(name: str) -> int:
    folder = _home() / ".locks"
    folder.mkdir(parents=True, exist_ok=True)
    return os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _sweep() -> None:
    """Delete what builders left that were killed: folders in the making whose lock nobody holds."""
    for folder in _home().glob(f"{_BUILDING}*"):
        lock = _open_lock(folder.name.removeprefix(_BUILDING))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)


@dataclass
class _Builder:
    """Installs into one folder. uv where it can, because it is fast; pip where torch is wanted or uv fails.

    Builds of torch often come from places that only pip is told of, and the default ones weigh gigabytes: uv is never
    let near them, and a torch that a package merely depends on is held to the release that runs Driftline.
    """

    folder: Path
    lock: int
    report: Reporter
    requirements: list[str] = field(default_factory=list)
    uv: str | None = None

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def install(self, requirements: list[str]) -> None:
        self.requirements = requirements
        shutil.rmtree(self.folder, ignore_errors=True)
        if "torch" not in _names(requirements) and self._install_with_uv():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.uv = None
        self.report(f"installing {', '.join(self.requirements)} with pip")
        made = self._run([sys.executable, "-m", "venv", str(self.folder)])
        if made.returncode:
            raise DriftlineError(f"The virtualenv could not be made: {_complaint(made)}")
        self._pip(self.requirements)

    def _install_with_uv(self) -> bool:
        self.uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
        if not self.uv or self._run([self.uv, "venv", "-q", "--python", sys.executable, str(self.folder)]).returncode:
            return False
        plan = self._run([self.uv, "pip", "install", "--dry-run", "--python", self.python, *self.requirements])
        if re.search(r"^ *\+ torch==", plan.stderr, re.MULTILINE):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                self.requirements.append(f"torch=={importlib.metadata.version('torch').partition('+')[0]}")
            return False
        if plan.returncode:
            return False
        self.report(f"installing {', '.join(self.requirements)} with uv")
        return self._uv(self.requirements)

    def check_import(self, module: str) -> None:
        """Old releases were built against numpy 1 and do not say so: try the import, and step back if it fails.

        Some swallow the failure: they import with a warning and break later. The warning counts.
        """
        probe = [self.python, "-I", "-c", f"import numpy, {module}"]
        attempt = self._run(probe)
        unfit = "compiled using NumPy 1.x" in attempt.stderr
        unfit |= bool(attempt.returncode) and "numpy" in attempt.stderr.lower()
        if unfit and "numpy" in self.requirements:
            self.report(f"{self.requirements[0]} does not import with numpy 2; taking numpy 1")
            older = ["numpy<2" if requirement == "numpy" else requirement for requirement in self.requirements]
            self._uv(older) if self.uv else self._pip(older)
            attempt = self._run(probe)
        if attempt.returncode:
            last = attempt.stderr.strip().splitlines()[-1:] or [f"exit status {attempt.returncode}"]
            raise DriftlineError(f"{self.requirements[0]} installs but does not import: {first_line(last[0])}")

    def _uv(self, requirements: Sequence[str]) -> bool:
        command = [str(self.uv), "pip", "install", "-q", "--python", self.python, *requirements]
        return self._run(command).returncode == 0

    def _pip(self, requirements: Sequence[str]) -> None:
        done = self._run([self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements])
        if done.returncode:
            raise DriftlineError(f"{requirements[0]} cannot be installed: {_complaint(done)}")

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "1", "PYTHONNOUSERSITE": "1"}
        variables.pop("PYTHONPATH", None)
        return subprocess.run(
            command, capture_output=True, text=True, env=variables, stdin=subprocess.DEVNULL, pass_fds=(self.lock,)
        )


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """What pip has to say, in one sentence, and which releases there are when the one asked for does not exist."""
    text = done.stderr + done.stdout
    missing = re.search(r"satisfies the requirement (\S+)==(\S+) \(from versions: ([^)]*)\)", text)
    if missing:
        name, version, listing = missing.groups()
        versions = [v for v in listing.split(", ") if v and v != "none"]
        if not versions:
            return f"no package {name} is found for this Python ({sys.version_info.major}.{sys.version_info.minor})."
        return (
            f"{name} has no release {version} for this Python.{did_you_mean(version, versions)} Newest: {versions[-1]}."
        )
    lines = [line for line in text.splitlines() if "error" in line.lower()]
    return first_line(lines[-1] if lines else text)
