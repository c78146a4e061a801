"""Lists the releases of a package that can be installed here, and their download sizes.

Pip and uv are asked, so that the index, mirror or folder that the user has configured is used.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from driftline.backends.packages import installing
from driftline.core.errors import DriftlineError
from driftline.core.text import first_line
from driftline.execute.cpu_torch import is_gpu_only


def list_releases(package: str) -> list[str]:
    """Return the releases with wheels for this Python, oldest first, without pre-releases and local builds."""
    versions = _listed(package)
    if half := installing(package).compiled_half:  # older releases than all of its compiled half fail
        oldest = release_key(_listed(half)[0])
        versions = [version for version in versions if release_key(version) >= oldest]
    return versions


def newest_release(package: str, *, pre: bool = False) -> str:
    """Return the newest release with a wheel for this Python; with `pre`, a pre-release if one is newer."""
    return public(_index(package, *(("--pre",) if pre else ()))[0])


def release_key(version: str) -> tuple[tuple[int, ...], int]:
    """Return a sort key of a release: 1.9 before 1.10, 2.15.0 before 2.15.0.post1."""
    plain, _, post = public(version).partition(".post")
    return tuple(int(part) for part in re.findall(r"\d+", plain)), int(post or 0)


def public(version: str) -> str:
    """Return the version without the suffix of a local build: 2.13.0 for 2.13.0+cpu."""
    return version.partition("+")[0]


def _listed(package: str) -> list[str]:
    return sorted({public(version) for version in _index(package)}, key=release_key)


def _index(package: str, *flags: str) -> list[str]:
    """Return the versions that the index lists, in its order: the newest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--only-binary", ":all:", *flags, package]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if not found:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        told = first_line(errors[-1].removeprefix("ERROR: ") if errors else done.stderr or "pip says nothing")
        raise DriftlineError(
            f"The releases of {package} cannot be listed: {told.rstrip('.')}. Check the name and the connection, or"
            " name the release yourself (watch --release, bisect --releases)."
        )
    return found[1].split(", ")


@dataclass(frozen=True)
class Wheel:
    """One wheel file that an installation needs."""

    name: str
    version: str
    source: str  # a URL or a path
    size: int = 0  # in bytes; 0 when unknown

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version}"


def canonical(name: str) -> str:
    """Return a package name in the spelling of package indexes, which treat `ONNX_Runtime` and `onnx-runtime` as
    equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def download_size(requirements: Sequence[str]) -> int | None:
    """Return how many bytes an installation downloads at most, with its dependencies; None if that is unknown."""
    wheels = for_cpu(resolve(requirements))
    with ThreadPoolExecutor(8) as threads:
        sizes = list(threads.map(_file_size, wheels))
    return sum(sizes) if wheels and all(sizes) else None


def for_cpu(wheels: Sequence[Wheel]) -> list[Wheel]:
    """Return the wheels that are really installed: torch does not need its GPU libraries."""
    with_torch = any(wheel.name == "torch" for wheel in wheels)
    return [wheel for wheel in wheels if not (with_torch and is_gpu_only(wheel.name))]


@functools.cache
def _resolved(requirements: tuple[str, ...]) -> tuple[Wheel, ...]:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    return (_resolved_by_uv(uv, requirements) if uv else ()) or _resolved_by_pip(requirements)


def resolve(requirements: Sequence[str]) -> tuple[Wheel, ...]:
    """Return the wheels that an installation would fetch; an empty tuple if it cannot succeed. Nothing is installed."""
    return _resolved(tuple(requirements))


def _resolved_by_uv(uv: str, requirements: Sequence[str]) -> tuple[Wheel, ...]:
    command = [uv, "pip", "compile", "-q", "--format", "pylock.toml", "--python", sys.executable, "-"]
    done = subprocess.run(command, capture_output=True, text=True, input="\n".join(requirements))
    if done.returncode:
        return ()
    found = []
    for entry in tomllib.loads(done.stdout).get("packages", []):
        for wheel in entry.get("wheels", [])[:1]:
            source = wheel.get("path") or wheel["url"]
            found.append(Wheel(canonical(entry["name"]), entry["version"], source, wheel.get("size", 0)))
    return tuple(found)


def _resolved_by_pip(requirements: Sequence[str]) -> tuple[Wheel, ...]:
    """Resolve with pip, which is slower than uv: if an index does not provide a wheel's metadata, pip fetches the
    wheel."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--report", "-"]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        return ()
    return tuple(
        Wheel(canonical(entry["metadata"]["name"]), entry["metadata"]["version"], entry["download_info"]["url"])
        for entry in json.loads(done.stdout)["install"]
    )


def _file_size(wheel: Wheel) -> int:
    """Return the size of a wheel in bytes; 0 if unknown."""
    if wheel.size:
        return wheel.size
    with contextlib.suppress(OSError, ValueError):
        if "://" not in wheel.source:
            return Path(wheel.source).stat().st_size
        request = urllib.request.Request(wheel.source, method="HEAD")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.headers.get("Content-Length") or 0)
    return 0
