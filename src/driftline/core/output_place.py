"""Files and folders that a person names for output: what cannot be written is told before work is spent on it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from driftline.core.errors import DriftlineError


def require_place(path: Path, example: str = "report.html", option: str = "--out") -> None:
    """Refuse early what cannot be a file to write; the example is a name for one. Rights do not tell all: it tries."""
    named = f"{option} {path}".strip()
    if path.is_dir():
        raise DriftlineError(f"{named} is a folder; name a file in it, such as {path / example}.")
    if not path.parent.is_dir():
        raise DriftlineError(f"{named}: there is no folder {path.parent}; make it or name another file.")
    if path.exists() and not path.is_file():  # a pipe or /dev/stdout
        return
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise DriftlineError(f"{named} cannot be written: {error.strerror}. Name another file.") from error


def make_folder(path: Path, option: str = "--out") -> None:
    """Make a folder and those above it, where they are not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if path.is_file() else f"the folder cannot be made ({error.strerror})"
        raise DriftlineError(f"{option} {path}: {reason}; name another one.") from error
