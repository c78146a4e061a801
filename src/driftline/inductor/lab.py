"""Lab folders: where the lab writes, and how it recognises its own files.

A lab folder holds *runs*. A run is a folder of its own, whose name no other run has, with a manifest `run.json` that
lists every file before the file is written. So runs that write at the same time do not mix, a run that was killed is
known to be incomplete, and `clean` removes what the lab wrote and nothing else. The report about all runs belongs to
none of them: it is known by a mark in it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.text import to_json

MANIFEST = "run.json"
SCHEMA = 1
_MARK = "driftline inductor lab"
DEFAULT = Path("inductor-lab")
REPORT = "report.html"  # the default file of `report`
_REPORT_MARK = b'<meta name="generator" content="driftline inductor report">'
_MADE_BY = {
    "capture": "`driftline inductor capture file.py:name`",
    "guards": "`driftline inductor guards file.py:name`",
    "diff": "`driftline inductor diff file.py:name`",
    "mock": "`save()` of a mock backend, after the model was compiled with it",
}
_SHOWN_BY = {
    "capture": "`driftline inductor analyze`",
    "guards": "`driftline inductor analyze --type guards`",
    "mock": "`driftline inductor analyze --type constraints`",
    "diff": "`driftline inductor report`",
}


@dataclass
class LabRun:
    """One run in a lab folder: writes files and lists them in its manifest."""

    folder: Path
    kind: str  # capture, diff, guards, mock
    name: str  # of the model
    made: str
    complete: bool = False
    files: list[str] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file of this run; `name` may contain folders, separated by slashes."""
        path = self.place(name)
        path.write_bytes(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
        return path

    def write_json(self, name: str, value: Any) -> Path:
        return self.write(name, to_json(value, indent=1) + "\n")

    def place(self, name: str) -> Path:
        """Return the path for a file that other code will write, and list it in the manifest."""
        path = self.folder / _inside(name)
        if name not in self.files:
            self.files.append(name)
            self._save()
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def read(self, name: str) -> str:
        return (self.folder / _inside(name)).read_text()

    def read_json(self, name: str) -> Any:
        return json.loads(self.read(name))

    def has(self, name: str) -> bool:
        return name in self.files and (self.folder / name).is_file()

    def finish(self, **summary: Any) -> None:
        """Mark the run as complete; `summary` is what `list` shows."""
        self.complete = True
        self.summary = summary
        self._save()

    def summary_words(self) -> list[str]:
        """Return the summary in words. Its keys are plural nouns."""
        return [
            f"1 {name.removesuffix('s')}" if value == 1 else f"{value} {name}" for name, value in self.summary.items()
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "made_by": _MARK, "schema": SCHEMA, "kind": self.kind, "name": self.name, "made": self.made,
            "complete": self.complete, "summary": self.summary, "files": self.files,
        }  # fmt: skip

    def _save(self) -> None:
        part = self.folder / f".{MANIFEST}.part"
        part.write_text(to_json(self.to_json(), indent=1) + "\n")
        os.replace(part, self.folder / MANIFEST)


@dataclass(frozen=True)
class Cleaned:
    """The result of `clean`."""

    runs: int
    files: int
    kept: tuple[str, ...]  # files in run folders that the lab did not write


class Lab:
    """A lab folder. Creating the object does not touch the file system."""

    def __init__(self, folder: str | Path = DEFAULT) -> None:
        self.folder = Path(folder)

    def new_run(self, kind: str, name: str = "model") -> LabRun:
        """Create a run in a new folder of its own."""
        short = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:40] or "model"
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        while True:
            folder = self.folder / f"{kind}-{short}-{secrets.token_hex(4)}"
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                folder.mkdir()
            except FileExistsError:
                if not self.folder.is_dir():
                    raise DriftlineError(f"{self.folder} is a file; name a folder to write to.") from None
                continue
            except OSError as error:
                raise DriftlineError(f"Cannot write to {self.folder}: {error.strerror}.") from error
            run = LabRun(folder, kind, name, made)
            run._save()
            return run

    def adopt(self, run: LabRun) -> LabRun:
        """Copy a complete run from elsewhere, such as a worker's scratch folder, into this lab."""
        mine = self.new_run(run.kind, run.name)
        mine.made = run.made
        for name in run.files:
            if run.has(name):
                mine.write(name, (run.folder / name).read_bytes())
        mine.complete, mine.summary = run.complete, run.summary
        mine._save()
        return mine

    def require_folder(self) -> None:
        if not self.folder.is_dir():
            raise DriftlineError(
                f"{self.folder}: there is no such folder; `driftline inductor capture file.py:name --out {self.folder}`"
                " makes one."
            )

    def runs(self, kind: str | None = None) -> list[LabRun]:
        """Return all runs (of a kind), oldest first, incomplete ones too. The lab's folder may be that of a single
        run."""
        found = [run for run in self._all() if kind in (None, run.kind)]
        return sorted(found, key=lambda run: (run.made, run.folder.name))

    def require_run(self, kinds: Sequence[str] = ()) -> LabRun:
        """Return the latest complete run (of these kinds), or raise with the reason why there is none."""
        self.require_folder()
        runs = self.runs()
        if not runs:
            raise DriftlineError(
                f"{self.folder} holds no runs of the lab; `driftline inductor capture file.py:name --out"
                f" {self.folder}` makes one."
            )
        fitting = [run for run in runs if not kinds or run.kind in kinds]
        if not fitting:
            made = sorted({run.kind for run in runs})
            shown = [_SHOWN_BY[kind] for kind in made if kind in _SHOWN_BY]
            raise DriftlineError(
                f"{self.folder} holds no run of the kind {' or '.join(kinds)}, only {', '.join(made)}."
                f" Make one with {_MADE_BY[kinds[0]]}"
                + (f"; what is there, {' or '.join(shown)} shows." if shown else ".")
            )
        whole = [run for run in fitting if run.complete]
        if not whole:
            raise DriftlineError(
                f"{fitting[-1].folder} is incomplete: the run that wrote it was interrupted, or still works. Run it"
                " again, and remove this one with `driftline inductor clean`."
            )
        return whole[-1]

    def clean(self) -> Cleaned:
        """Remove every run: the files of its manifest, then its empty folders."""
        self.require_folder()
        runs, removed, kept = self.runs(), 0, []
        for run in runs:
            for name in run.files:
                removed += _remove(run.folder, name)
            for folder in sorted({parent for n in run.files for parent in PurePosixPath(n).parents}, reverse=True):
                _remove_folder(run.folder / folder)
            (run.folder / f".{MANIFEST}.part").unlink(missing_ok=True)
            kept += [str(path) for path in sorted(run.folder.rglob("*")) if path != run.folder / MANIFEST]
            (run.folder / MANIFEST).unlink(missing_ok=True)
            removed += 1
            _remove_folder(run.folder)
        if runs:
            removed += _remove_report(self.folder / REPORT)
        if runs and self.folder.is_dir() and not self.folder.is_symlink():
            _remove_folder(self.folder)
        return Cleaned(len(runs), removed, tuple(kept))

    def _all(self) -> Iterator[LabRun]:
        if not self.folder.is_dir():
            return
        for folder in (self.folder, *sorted(self.folder.iterdir())):
            if folder.is_dir() and (folder == self.folder or not folder.is_symlink()):
                run = read_run(folder)
                if run is not None:
                    yield run


def read_run(folder: Path) -> LabRun | None:
    """Read the run in a folder; `None` if it has no manifest of the lab."""
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        return None
    try:
        value = json.loads(path.read_text())
        if value["made_by"] != _MARK:
            return None
        if value["schema"] != SCHEMA:
            raise DriftlineError(f"{path} was written by another release of Driftline (schema {value['schema']}).")
        files = [str(name) for name in value["files"]]
        for name in files:
            _inside(name)
        return LabRun(
            folder, str(value["kind"]), str(value["name"]), str(value["made"]), bool(value["complete"]), files,
            dict(value["summary"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None  # another program's file, or damaged: not trusted


def _inside(name: str) -> PurePosixPath:
    """Return the name as a path, and raise if it leads out of the run: the manifest may have been changed."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or path == PurePosixPath(MANIFEST):
        raise ValueError(f"{name!r} is no name of a file in a run")
    return path


def _remove(folder: Path, name: str) -> int:
    path = folder / name
    if any(parent.is_symlink() for parent in path.parents if parent.is_relative_to(folder) and parent != folder):
        return 0  # a link to somewhere else was put in the place of our folder
    try:
        path.unlink()
    except OSError:
        return 0
    return 1


def _remove_report(path: Path) -> int:
    """Remove the report page, unless someone else wrote the file. Returns the number of removed files."""
    if path.is_symlink() or not path.is_file() or _REPORT_MARK not in path.read_bytes()[:400]:
        return 0
    path.unlink()
    return 1


def _remove_folder(path: Path) -> None:
    if not path.is_symlink():
        try:
            path.rmdir()
        except OSError:
            return  # files of others are in it
