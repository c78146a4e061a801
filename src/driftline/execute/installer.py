"""Installs packages into the folder of an environment: with uv or pip, with numpy 1 if a release needs it, without GPU
libraries."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from driftline.core.announce import Announce
from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean, first_line
from driftline.execute.cpu_torch import is_gpu_only, stand_in_for_gpu
from driftline.execute.releases import canonical, for_cpu, resolve


def names(requirements: Sequence[str]) -> set[str]:
    """Return the names of the required packages, both as written and in the spelling of package indexes."""
    written = {re.split(r"[=<>!~\[; ]", requirement)[0] for requirement in requirements}
    return {canonical(name) for name in written} | {name.lower() for name in written}


@dataclass
class Installer:
    """Installs into one folder, with uv, which is fast, or with pip if torch is wanted or uv fails.

    Builds of torch often come from indexes that only pip is configured for, so uv never installs torch. Its GPU
    libraries are left out. If a package merely depends on torch, the release of torch that runs Driftline is installed.
    """

    folder: Path
    lock: int
    report: Announce
    requirements: list[str] = field(default_factory=list)
    uv: str | None = None

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def install(self, requirements: list[str]) -> None:
        """Install the requirements into the folder, which is emptied first."""
        self.requirements = requirements
        shutil.rmtree(self.folder, ignore_errors=True)
        if "torch" not in names(requirements) and self._install_with_uv():
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
        """Check that a module imports. Old releases were built against numpy 1 without saying so: if the import fails
        with numpy 2, install numpy 1.

        Some modules import with a warning and fail later, so the warning counts as a failure.
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
        wheels = resolve(requirements) if "torch" in names(requirements) else ()
        on_gpu = any(is_gpu_only(wheel.name) for wheel in wheels)
        chosen = ["--no-deps", *(wheel.pin for wheel in for_cpu(wheels))] if on_gpu else requirements
        done = self._run(
            [self.python, "-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check", *chosen]
        )
        if done.returncode:
            raise DriftlineError(f"{requirements[0]} cannot be installed: {_complaint(done)}")
        if on_gpu:
            self.report(f"{requirements[0]}: for the CPU only, without its GPU libraries")
            for libraries in self.folder.glob("lib/python*/site-packages/torch/lib"):
                stand_in_for_gpu(libraries)

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "1", "PYTHONNOUSERSITE": "1"}
        variables.pop("PYTHONPATH", None)
        return subprocess.run(
            command, capture_output=True, text=True, env=variables, stdin=subprocess.DEVNULL, pass_fds=(self.lock,)
        )


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Return pip's error in one sentence, with the available releases if the requested one does not exist."""
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
