"""Folders with pages and pictures that other commands wrote: the TorchInductor lab, instabilities, and anything named
with `--folder`.

These pages may contain scripts, and a folder may come from someone else. So they are shown in a sandbox: with an opaque
origin, without cookies, requests, forms and windows. Files that they load from their own folder are protected by a
secret part of the address, not by a cookie; it is new with every server. Links that lead out of a folder are not
followed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from driftline.inductor.lab import Lab
from driftline.serve.settings import ServeSettings

MOST = 500  # files of a folder that are listed
DEEP = 4  # folders below it that are looked into
_PAGES, _PICTURES = (".html", ".htm"), (".png", ".svg", ".jpg", ".jpeg")
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".htm": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
_TEXTS = (".md", ".txt", ".csv", ".py", ".cpp", ".json", ".jsonl", ".log", ".toml", ".ll")
HEADERS = {
    "Content-Security-Policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src"
    " 'unsafe-inline' 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "cross-origin",  # to a page in a sandbox, its own pictures are another's
    "Referrer-Policy": "no-referrer",  # the address holds the secret
}


@dataclass(frozen=True)
class FolderFile:
    """A file of a folder, as the list of files shows it."""

    path: str  # below the folder
    title: str
    note: str = ""


@dataclass(frozen=True)
class FolderView:
    """The contents of a folder, by kind of file."""

    number: int
    name: str
    runs: tuple[FolderFile, ...]  # of the TorchInductor lab
    pages: tuple[FolderFile, ...]
    pictures: tuple[FolderFile, ...]
    texts: tuple[FolderFile, ...]
    cut: bool  # there is more than is listed

    @property
    def empty(self) -> bool:
        return not (self.runs or self.pages or self.pictures or self.texts)


def view_folder(settings: ServeSettings, number: int) -> FolderView:
    folder = settings.folders[number]
    runs = tuple(_lab_runs(folder))
    files = [] if runs else list(itertools.islice(_files(folder, DEEP), MOST + 1))
    shown = files[:MOST]

    def ending(suffixes: tuple[str, ...]) -> tuple[FolderFile, ...]:
        return tuple(FolderFile(name, name) for name in shown if Path(name).suffix.lower() in suffixes)

    return FolderView(
        number, str(folder), runs, ending(_PAGES), ending(_PICTURES), ending(_TEXTS), cut=len(files) > MOST
    )


def _lab_runs(folder: Path) -> Iterator[FolderFile]:
    for run in reversed(Lab(folder).runs()):
        page = next((name for name in ("index.html", "guards.txt", "diff.json") if run.has(name)), "")
        if page and run.complete:
            path = (run.folder / page).relative_to(folder).as_posix()
            yield FolderFile(path, f"{run.name}: {run.kind}", f"{run.made}, {', '.join(run.summary_words())}")


def _files(folder: Path, deep: int, below: str = "") -> Iterator[str]:
    """Yield the names of files below a folder, sorted, down to `deep` levels. Hidden files and links are skipped."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_file():
            yield f"{below}{entry.name}"
        elif deep and entry.is_dir():
            yield from _files(Path(entry.path), deep - 1, f"{below}{entry.name}/")


def find_file(settings: ServeSettings, number: int, name: str) -> tuple[Path, str] | None:
    """Return the path and media type of a file in a folder; None if it does not exist, is hidden, or lies outside."""
    if not 0 <= number < len(settings.folders):
        return None
    parts = name.split("/")
    suffix = Path(name).suffix.lower()
    if any(not part or part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    if suffix not in _KINDS and suffix not in _TEXTS:
        return None
    try:
        top = settings.folders[number].resolve()
        path = top.joinpath(*parts).resolve(strict=True)
    except OSError:
        return None
    if not path.is_relative_to(top) or not path.is_file():
        return None
    return path, _KINDS.get(suffix, "text/plain; charset=utf-8")
