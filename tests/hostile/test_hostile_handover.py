"""A worker on a kernel without Landlock: links, pipes and other folders in the places of the files that it hands over.

Each attack does in the folders of a run what a worker could do there without Landlock, and then has the main process
read, write or remove what the worker handed over.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from driftline.core import handover
from driftline.core.errors import DriftlineError
from driftline.core.program import file_digest
from driftline.core.tensors import load_tensors, packed, save_tensors
from driftline.execute.shelf import load_from
from driftline.execute.worker_handle import end_of_log
from driftline.execute.workspace import Workspace
from hostile.attack import Attack, both_ways

ARRAYS = {"x": np.ones(3, np.float32)}


@contextlib.contextmanager
def run_in(place: Path) -> Iterator[Workspace]:
    """The folders of a run in a cache of their own."""
    with pytest.MonkeyPatch.context() as own:
        own.setenv("DRIFTLINE_CACHE", str(place / "cache"))
        workspace = Workspace()
        try:
            yield workspace
        finally:
            workspace.close()


def home(place: Path) -> Path:
    """A folder of the user with a file of tensors."""
    folder = place / "home"
    folder.mkdir()
    save_tensors(folder / "0.safetensors", ARRAYS)
    return folder


def _read(read: Callable[[Path], object], attack: Callable[[Path, Path], Path]) -> Callable[[Path], str]:
    """Reads what a worker handed over; `attack` prepares the folder of the job and returns the path to be read."""

    def run(place: Path) -> str:
        with run_in(place) as workspace:
            path = attack(workspace.job_folder(), home(place))
            try:
                found = read(path)
            except (DriftlineError, OSError):
                return ""
            return "it was read" if found else ""

    return run


def _link(folder: Path, home: Path) -> Path:
    (folder / "0.safetensors").symlink_to(home / "0.safetensors")
    return folder / "0.safetensors"


def _folder_link(folder: Path, home: Path) -> Path:
    folder.rmdir()
    folder.symlink_to(home)
    return folder / "0.safetensors"


def _all_jobs_link(folder: Path, home: Path) -> Path:
    folder.parent.rename(folder.parent.with_name("moved"))
    folder.parent.symlink_to(home.parent)
    (home.parent / folder.name).symlink_to(home)
    return folder / "0.safetensors"


def _run_link(folder: Path, home: Path) -> Path:
    """The folder of the whole run is moved away, and a copy made by the worker is in its place."""
    root = folder.parent.parent
    root.rename(root.with_name("moved"))
    folder.mkdir(parents=True)
    save_tensors_plainly(folder / "0.safetensors")
    return folder / "0.safetensors"


def save_tensors_plainly(path: Path) -> None:
    path.write_bytes(b"".join(bytes(piece) for piece in packed(ARRAYS)))


def _named_elsewhere(folder: Path, home: Path) -> Path:
    """The worker's answer names a file of the user."""
    return home / "0.safetensors"


def _named_by_dots(folder: Path, home: Path) -> Path:
    return folder / ".." / ".." / ".." / ".." / ".." / "home" / "0.safetensors"


def _piped(read: Callable[[Path], object]) -> Callable[[Path], str]:
    """A pipe in the place of a file: the main process would wait for somebody who writes into it."""

    def run(place: Path) -> str:
        with run_in(place) as workspace:
            path = workspace.job_folder() / "0.safetensors"
            os.mkfifo(path)
            ended = threading.Event()

            def try_to_read() -> None:
                with contextlib.suppress(DriftlineError, OSError):
                    read(path)
                ended.set()

            reader = threading.Thread(target=try_to_read, daemon=True)
            reader.start()
            waits = not ended.wait(0.5)
            if waits:  # end the thread
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK) if reader.is_alive() else -1
                if fd >= 0:
                    os.close(fd)
                reader.join(5)
            return "the main process waits for ever" if waits else ""

    return run


def _inputs_written_elsewhere(place: Path) -> str:
    """The folder of a job is replaced while the main process is about to write inputs there."""
    with run_in(place) as workspace:
        folder, victim = workspace.job_folder(), home(place)
        folder.rmdir()
        folder.symlink_to(victim)
        with contextlib.suppress(DriftlineError, OSError):
            save_tensors(folder / "input0", ARRAYS)
        return "a file was written" if (victim / "input0").exists() else ""


def _job_folder_elsewhere(place: Path) -> str:
    with run_in(place) as workspace:
        jobs, victim = workspace.job_folder().parent, home(place)
        jobs.rename(jobs.with_name("moved"))
        jobs.symlink_to(victim)
        before = set(victim.iterdir())
        with contextlib.suppress(DriftlineError, OSError):
            workspace.job_folder()
        return "a folder was made" if set(victim.iterdir()) != before else ""


def _removed_elsewhere(remove: Callable[[Path], None], name: str) -> Callable[[Path], str]:
    """What the main process removes after a job lies behind a link that the worker made."""

    def run(place: Path) -> str:
        with run_in(place) as workspace:
            folder, victim = workspace.job_folder(), place / "home"
            (victim / folder.name / "inner").mkdir(parents=True)
            (victim / folder.name / "inner" / "precious").write_text("precious")
            folder.parent.rename(folder.parent.with_name("moved"))
            folder.parent.symlink_to(victim)
            remove(folder / name if name else folder)
            return "" if (victim / folder.name / "inner" / "precious").exists() else "a file of the user is gone"

    return run


def _lines(path: Path) -> list[str]:
    return [json.dumps(line) for line in handover.lines_of(path)]


def _load_named(path: Path) -> object:
    return load_tensors(handover.handed(path))


def _opened(path: Path | str) -> BinaryIO:
    return open(path, "rb")


def by_path(weak: pytest.MonkeyPatch) -> None:
    """As files are opened and removed without this guard: by their paths."""

    @contextlib.contextmanager
    def parent(path: Path | str) -> Iterator[tuple[int, str]]:
        folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield folder, Path(path).name
        finally:
            os.close(folder)

    weak.setattr("driftline.core.handover._parent_of", parent)
    for module in ("handover", "tensors", "program"):
        weak.setattr(f"driftline.core.{module}.open_file", _opened)
    for module in ("shelf", "worker_handle"):
        weak.setattr(f"driftline.execute.{module}.open_file", _opened)
    weak.setattr("driftline.core.handover.handed", Path)


READERS: dict[str, Callable[[Path], object]] = {
    "results": load_tensors,
    "shelf": lambda path: load_from(f"{path}#0"),
    "program": file_digest,
    "journal": _lines,
    "log": end_of_log,
}
PLACED = {"a-link": _link, "a-linked-folder": _folder_link, "linked-jobs": _all_jobs_link, "another-run": _run_link}
ATTACKS = [
    *(
        Attack(f"{reader}-behind-{name}", _read(READERS[reader], attack), by_path)
        for reader in READERS
        for name, attack in PLACED.items()
    ),
    *(Attack(f"{reader}-in-a-pipe", _piped(READERS[reader]), by_path) for reader in READERS),
    Attack("results-named-elsewhere", _read(_load_named, _named_elsewhere), by_path),
    Attack("results-named-by-dots", _read(_load_named, _named_by_dots), by_path),
    Attack("inputs-are-written-elsewhere", _inputs_written_elsewhere, by_path),
    Attack("job-is-made-elsewhere", _job_folder_elsewhere, by_path),
    Attack("job-is-removed-elsewhere", _removed_elsewhere(handover.remove_folder, ""), by_path),
    Attack("file-is-removed-elsewhere", _removed_elsewhere(handover.remove_file, "inner/precious"), by_path),
]
test_attack_fails = both_ways(ATTACKS)
