"""The state of a source program that its text does not fix: its weights, its example inputs, and the data files it
reads.

Every worker calls the factory again. The digest made here shows whether it got the same program.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.structure import flatten
from driftline.programs.live import LiveProgram, is_tensor, to_array

_recorders: list[set[str]] = []
_hooked = False
_packages: tuple[str, ...] = ()
_INTERPRETER = tuple(os.path.join(folder, "") for folder in (sys.prefix, sys.base_prefix))  # "venv/", not "venv-data"
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/")


@contextlib.contextmanager
def recording_opened_files() -> Iterator[set[str]]:
    """Collect the data files opened for reading in the block. Code and installed packages are ignored: a package reads
    more files when it is first imported."""
    global _hooked, _packages
    _packages = tuple(package for entry in map(os.path.abspath, sys.path) for package in _installed(entry))
    if not _hooked:  # an audit hook cannot be removed: one for the process, which looks for a recorder
        sys.addaudithook(_on_event)
        _hooked = True
    opened: set[str] = set()
    _recorders.append(opened)
    try:
        yield opened
    finally:
        _recorders.remove(opened)


@cache
def _installed(folder: str) -> tuple[str, ...]:
    """Return the folders that pip installed in this folder, where a user's own files may lie too. Without a list of
    files, as in some distributions, the whole folder counts as installed."""
    if os.path.join(folder, "").startswith(_INTERPRETER):
        return ()  # files of the interpreter do not count
    names: set[str] = set()
    with contextlib.suppress(OSError):
        for about in Path(folder).glob("*.dist-info"):
            names.add(about.name)
            try:
                lines = (about / "RECORD").read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                return (os.path.join(folder, ""),)
            names |= {line.partition("/")[0] for line in lines if "/" in line}
    return tuple(os.path.join(folder, name) + os.sep for name in sorted(names - {"..", ""}))


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" or not _recorders:
        return
    path, mode = args[0], args[1]
    if not isinstance(path, str) or (isinstance(mode, str) and set(mode) & set("wax+")):
        return
    if path.startswith((*_INTERPRETER, *_SYSTEM, *_packages)) or path.endswith((".py", ".pyc")):
        return
    for recorder in _recorders:
        recorder.add(path)


def state_digest(live: LiveProgram, opened: set[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(_tensors(live)):
        array = to_array(tensor)
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)  # no second copy of large weights
    for path in sorted(opened):
        with contextlib.suppress(OSError):
            if Path(path).is_file():
                digest.update(Path(path).name.encode())
                _update_from(digest, Path(path))
    return digest.hexdigest()


def _update_from(digest: Any, path: Path) -> None:
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)


def state_size(live: LiveProgram) -> int:
    """Return the bytes of the weights, as far as the framework reports them."""
    return sum(
        int(getattr(tensor, "nbytes", 0) or 0) for name, tensor in _tensors(live) if not name.startswith("input ")
    )


def _tensors(live: LiveProgram) -> Iterator[tuple[str, Any]]:
    for name, leaf in flatten(live.arguments, "input").items():
        if is_tensor(leaf):
            yield f"input {name}", leaf
    for method in ("named_parameters", "named_buffers"):
        for name, tensor in getattr(live.function, method, tuple)():
            yield f"{method} {name}", tensor
    for index, variable in enumerate(getattr(live.function, "variables", None) or ()):
        yield f"variable {index}", variable
