"""Which releases of a package can be installed here, and how much that would download.

Asked through pip and uv, so that whatever index, mirror or folder the user has configured is the one that answers.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.text import first_line

# A package of pure Python is offered in releases whose compiled half is not: those older than all of the half's fail.
_COMPILED_HALF = {"jax": "jaxlib"}


def list_releases(package: str) -> list[str]:
    """Releases with wheels for this Python, oldest first; no pre-releases, no builds that differ in a local suffix."""
    versions = _listed(package)
    half = _COMPILED_HALF.get(package)
    if half:
        oldest = release_key(_listed(half)[0])
        versions = [version for version in versions if release_key(version) >= oldest]
    return versions


def release_key(version: str) -> tuple[tuple[int, ...], int]:
    """Orders releases: 1.9 before 1.10, 2.15.0 before 2.15.0.post1."""
    plain, _, post = public(version).partition(".post")
    return tuple(int(part) for part in re.findall(r"\d+", plain)), int(post or 0)


def public(version: str) -> str:
    """The version without the suffix of a local build: 2.13.0 of 2.13.0+cpu."""
    return version.partition("+")[0]


def _listed(package: str) -> list[str]:
    command = [sys.executable, "-m", "pip", "index", "versions", "--only-binary", ":all:", package]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = re.search(r"^Available versions: (.+)$", done.stdout, re.MULTILINE)
    if not found:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        told = first_line(errors[-1] if errors else done.stderr or "pip says nothing")
        raise DriftlineError(
            f"The releases of {package} cannot be listed: {told} Check the name and the connection, or name the"
            " releases yourself with --releases."
        )
    return sorted({public(version) for version in found[1].split(", ")}, key=release_key)


def download_size(requirements: Sequence[str]) -> int | None:
    """How many bytes an installation downloads at most, with all that it needs; nothing when that cannot be told."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if not uv:
        return None
    command = [uv, "pip", "compile", "-q", "--format", "pylock.toml", "--python", sys.executable, "-"]
    done = subprocess.run(command, capture_output=True, text=True, input="\n".join(requirements))
    if done.returncode:
        return None
    files = [wheels[0] for entry in tomllib.loads(done.stdout).get("packages", []) if (wheels := entry.get("wheels"))]
    with ThreadPoolExecutor(8) as threads:
        sizes = list(threads.map(_file_size, files))
    return sum(sizes) if files and all(sizes) else None


def _file_size(wheel: dict[str, Any]) -> int:
    """In bytes; 0 when nobody says."""
    if "size" in wheel:
        return int(wheel["size"])
    with contextlib.suppress(OSError, ValueError, KeyError):
        if "path" in wheel:
            return Path(wheel["path"]).stat().st_size
        request = urllib.request.Request(wheel["url"], method="HEAD")
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.headers.get("Content-Length") or 0)
    return 0
