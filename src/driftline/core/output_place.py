"""Checks output files and folders that the user names before any work is done for them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from driftline.core.errors import DriftlineError


def require_place(path: Path, example: str = "report.html", option: str = "--out") -> None:
    """Raise DriftlineError if a file cannot be written to `path`; tests it by creating a file there. `example`: a file
    name for the message."""
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
    """Make a folder and its missing parents. Raises DriftlineError if it cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "it is a file" if path.is_file() else f"the folder cannot be made ({error.strerror})"
        raise DriftlineError(f"{option} {path}: {reason}; name another one.") from error
