"""A cache, kept between runs, of answers that stay the same until something is installed or changed.

An answer is plain data under a key of everything it depends on: releases, the interpreter, the processor, Driftline's
own code. An answer whose file is unreadable or holds another key is computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from driftline.core.config import cache_home
from driftline.core.private import private_folder, write_private

FORMAT = 1


@dataclass(frozen=True)
class RememberedAnswer:
    """A cached answer, and when it was computed, in seconds since 1970."""

    value: Any
    made: float
    remembered: bool = True


def remembered(name: str, key: Any, make: Callable[[], Any], *, fresh: bool = False) -> RememberedAnswer:
    """Return the answer called `name` for this key, from the cache or computed by `make`. `fresh`: compute it in any
    case."""
    if not fresh and (known := recalled(name, key)):
        return known
    return keep(name, key, make())


def recalled(name: str, key: Any) -> RememberedAnswer | None:
    """Return the cached answer for this key, or None."""
    return _read(_place(name, key))


def keep(name: str, key: Any, value: Any) -> RememberedAnswer:
    """Store an answer in the cache and return it."""
    made = RememberedAnswer(value, time.time(), remembered=False)
    _write(_place(name, key), made)
    return made


def _place(name: str, key: Any) -> Path:
    return cache_home() / "answers" / f"{name}-{_digest(key)[:32]}.json"


def _digest(key: Any) -> str:
    return hashlib.sha256(json.dumps([FORMAT, key], sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> RememberedAnswer | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        held = json.loads(path.read_text())
        if held["digest"] == _digest(held["value"]):
            return RememberedAnswer(held["value"], float(held["made"]))
    return None


def _write(path: Path, answer: RememberedAnswer) -> None:
    body = {"made": answer.made, "digest": _digest(answer.value), "value": answer.value}
    with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
        private_folder(path.parent)
        write_private(path, [json.dumps(body).encode()])


def releases(packages: Iterable[str]) -> dict[str, str]:
    """Return the installed release of each package; an empty string for a missing one."""
    found = {}
    for package in packages:
        found[package] = ""
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@lru_cache(1)
def surroundings() -> dict[str, str]:
    """Return what every answer about a compiler may depend on: the interpreter, the machine, and Driftline's own
    code."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "machine": platform.machine(),
        "processor": _processor(),
        "driftline": own_code(),
    }


def _processor() -> str:
    """Return a hash of the processor's model and features, by which compilers choose their rules."""
    told: set[str] = set()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part", "CPU variant")
        told = {line.strip() for line in file if line.startswith(wanted)}
    return hashlib.sha256("\n".join(sorted(told)).encode()).hexdigest()[:16]


def own_code() -> str:
    """Return a hash of the sizes and times of Driftline's files, which changes when one of them is edited or
    upgraded."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".json"):
            state = path.stat()
            digest.update(f"{path.relative_to(root)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
