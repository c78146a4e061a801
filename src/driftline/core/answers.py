"""Answers that stay the same as long as nothing is installed or changed, kept in the cache between runs.

An answer is plain data under a key of everything it depends on: releases, the interpreter, the processor, this very
code. A file that cannot be read, or holds another key, is no answer: it is made anew.
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
    """What was found out, and when, in seconds since 1970."""

    value: Any
    made: float
    remembered: bool = True


def remembered(name: str, key: Any, make: Callable[[], Any], *, fresh: bool = False) -> RememberedAnswer:
    """The answer called `name` to this key, from the cache or from `make`. `fresh`: do not look, but keep it."""
    if not fresh and (known := recalled(name, key)):
        return known
    return keep(name, key, make())


def recalled(name: str, key: Any) -> RememberedAnswer | None:
    """The answer to this key, if it is known."""
    return _read(_place(name, key))


def keep(name: str, key: Any, value: Any) -> RememberedAnswer:
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
    """Which release of each package is installed here; empty for none."""
    found = {}
    for package in packages:
        found[package] = ""
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@lru_cache(1)
def surroundings() -> dict[str, str]:
    """What every answer of a compiler may depend on: the interpreter, the machine, and Driftline's own code."""
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "machine": platform.machine(),
        "processor": _processor(),
        "driftline": own_code(),
    }


def _processor() -> str:
    """Model and features, which compilers choose their rules by."""
    told: set[str] = set()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part", "CPU variant")
        told = {line.strip() for line in file if line.startswith(wanted)}
    return hashlib.sha256("\n".join(sorted(told)).encode()).hexdigest()[:16]


def own_code() -> str:
    """A hash of the sizes and times of Driftline's files: another as soon as one of them is edited or upgraded."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".json"):
            state = path.stat()
            digest.update(f"{path.relative_to(root)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
