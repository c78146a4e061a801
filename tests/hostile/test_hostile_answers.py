"""What a program in a worker writes to the process that started the worker: to its socket, files and folders."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from forgers import FORGE, MISLEAD

from driftline.core import handover
from driftline.core.errors import DriftlineError
from driftline.core.removal import remove_tree
from driftline.core.task import Task
from driftline.core.tensors import Arrays, read_tensors
from driftline.core.wire import WireError, encode
from driftline.execute.channel import Channel, ChannelClosed, ChannelTimeout, channel_pair
from driftline.execute.messages import PARENT_OF_WORKER, Ending, FromWorker, Job
from driftline.execute.pool import Pool, WorkerKind
from driftline.execute.requests import ResultLine
from driftline.execute.shelf import load_from
from driftline.execute.task_report import DAMAGED
from driftline.execute.workspace import Workspace
from hostile.attack import DEEP, Attack, both_ways, replacing, small_stack


def _sent(data: Callable[[], bytes], descriptors: int = 0) -> Callable[[Path], str]:
    """Sends bytes in place of an answer, and has the parent read them."""

    def run(place: Path) -> str:
        channel, theirs = channel_pair(PARENT_OF_WORKER)
        before = _open_files()
        writer = threading.Thread(target=_write, args=(theirs, data(), descriptors), daemon=True)
        writer.start()
        try:
            while True:
                channel.receive(1.0)
        except (ChannelClosed, ChannelTimeout):
            pass
        except Exception as error:
            return f"the parent ends with {type(error).__name__}"
        finally:
            opened = len(_open_files() - before)
            channel.close()
            theirs.close()
            writer.join(10)
            for fd in _open_files() - before:
                with contextlib.suppress(OSError):  # the one with which this list was read
                    os.close(fd)
        if opened > 50:
            return f"the parent has {opened} more files open"
        return f"the parent keeps {len(channel._buffer) >> 20} MiB" if len(channel._buffer) > 8 << 20 else ""

    return run


def _open_files() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def _write(theirs: socket.socket, data: bytes, descriptors: int) -> None:
    with contextlib.suppress(OSError), open(os.devnull) as nothing:
        for _ in range(descriptors):
            socket.send_fds(theirs, [_frame(json.dumps({"is": "Lap"}).encode())], [nothing.fileno()] * 4)
        theirs.sendall(data)


def _frame(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _huge() -> bytes:
    return struct.pack("<I", 0xFFFFFFFF) + bytes(16 << 20)


def _any_descriptors(weak: pytest.MonkeyPatch) -> None:
    weak.setattr(Channel, "receive", lambda self, timeout=None: self.receive_with_fds(timeout)[0])


def _as_raised(weak: pytest.MonkeyPatch) -> None:
    weak.setattr("driftline.execute.channel.DAMAGES", ())


@contextlib.contextmanager
def run_in(place: Path) -> Iterator[Workspace]:
    with pytest.MonkeyPatch.context() as own:
        own.setenv("DRIFTLINE_CACHE", str(place / "cache"))
        workspace = Workspace()
        try:
            yield workspace
        finally:
            workspace.close()


def _deepen(folder: Path) -> None:
    """Make folders inside of each other, as a worker does: one at a time, since such a path is too long."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def _deep(remove: Callable[[Workspace], None]) -> Callable[[Path], str]:
    def run(place: Path) -> str:
        try:
            with small_stack(), run_in(place) as workspace:
                (workspace.root / "tmp" / "deep").mkdir()
                _deepen(workspace.root / "tmp" / "deep")
                remove(workspace)
        except RecursionError:
            return "the parent ends"
        finally:
            remove_tree(place / "cache")
        return ""

    return run


def _by_recursion(path: Path) -> bool:
    shutil.rmtree(path, ignore_errors=True)
    return True


def _folder_by_recursion(parent: int, name: str) -> bool:
    shutil.rmtree(name, ignore_errors=True, dir_fd=parent)
    return True


def _swept(place: Path) -> str:
    """A run that was killed leaves its folder to the next run, and to every later one."""
    with pytest.MonkeyPatch.context() as own:
        own.setenv("DRIFTLINE_CACHE", str(place / "cache"))
        left = place / "cache" / "scratch" / "run-1-dead"
        left.mkdir(parents=True)
        left.with_name("run-1-dead.lock").touch(mode=0o600)
        _deepen(left)
        try:
            with small_stack():
                Workspace().close()
        except RecursionError:
            return "no run can begin any more"
        finally:
            remove_tree(place / "cache")
    return ""


def _numbered(weak: pytest.MonkeyPatch) -> None:
    weak.setattr("driftline.execute.workspace.secrets.token_hex", lambda size: "7")


def _squat_numbers(place: Path) -> str:
    with run_in(place) as workspace:
        (workspace.root / "jobs" / "7").mkdir()
        try:
            workspace.job_folder()
        except OSError:
            return "no job can be made"
    return ""


def _lines_without_end(place: Path) -> str:
    """A hole in a file costs the worker nothing."""
    with run_in(place) as workspace, pytest.MonkeyPatch.context() as small:
        small.setattr(handover, "MOST_TEXT", 1 << 20)
        path = workspace.job_folder() / "results"
        path.write_bytes(b"{}\n")
        os.truncate(path, 3 << 20)
        return "all of the file is read" if sum(map(len, handover.lines_of(path))) > 2 << 20 else ""


def _all_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _tensors_without_end(place: Path) -> str:
    with run_in(place) as workspace, pytest.MonkeyPatch.context() as small:
        small.setattr("driftline.execute.shelf.MOST", 1 << 20)
        path = workspace.job_folder() / "results"
        header = json.dumps({"x": {"dtype": "U8", "shape": [3 << 20], "data_offsets": [0, 3 << 20]}}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header)
        os.truncate(path, 8 + len(header) + (3 << 20))
        try:
            return f"{load_from(f'{path}#0')['x'].nbytes >> 20} MiB are read"
        except DriftlineError:
            return ""


def _records(line: str) -> Callable[[Path], str]:
    """A line among the results that is no record."""

    def run(place: Path) -> str:
        with run_in(place) as workspace:
            path = workspace.job_folder() / "results"
            path.write_text(f"{line}\n{json.dumps(encode(ResultLine, ResultLine(1)))}\n")
            try:
                assert list(handover.records_of(path, ResultLine)) == [ResultLine(1)]
            except (WireError, RecursionError, ValueError) as error:
                return f"the parent ends with {type(error).__name__}"
        return ""

    return run


def _all_tensors(file: BinaryIO, most: int) -> Arrays:
    return read_tensors(file)


def _any_length(self: Channel[Job, FromWorker]) -> int:
    return 0xFFFFFFFF


strict = replacing("driftline.core.handover.DAMAGES", (json.JSONDecodeError,))
HANDOVER, WORKSPACE, SHELF = "driftline.core.handover", "driftline.execute.workspace", "driftline.execute.shelf"
ATTACKS = [
    Attack("answer-is-nested-deeply", _sent(lambda: _frame(b"[" * 200_000)), _as_raised),
    Attack("answer-has-a-long-number", _sent(lambda: _frame(b'{"is": "Lap", "x": ' + b"9" * 5000 + b"}")), _as_raised),
    Attack("answer-is-no-text", _sent(lambda: _frame(b'\xff\xfe"')), _as_raised),
    Attack("answer-is-of-no-kind", _sent(lambda: _frame(b'{"is": "Entered", "stage": [1]}')), _as_raised),
    Attack("answer-is-huge", _sent(_huge), replacing("driftline.execute.channel.Channel._frame_length", _any_length)),
    Attack("answer-brings-open-files", _sent(lambda: b"", descriptors=100), _any_descriptors),
    Attack("folders-are-deep", _deep(lambda _: None), replacing(f"{WORKSPACE}.remove_tree", _by_recursion)),
    Attack(
        "folders-of-a-worker-are-deep",
        _deep(lambda workspace: handover.remove_folder(workspace.root / "tmp" / "deep")),
        replacing(f"{HANDOVER}.remove_below", _folder_by_recursion),
    ),
    Attack("folders-of-a-killed-run-are-deep", _swept, replacing(f"{WORKSPACE}.remove_tree", _by_recursion)),
    Attack("names-of-jobs-are-taken", _squat_numbers, _numbered),
    Attack("journal-without-end", _lines_without_end, replacing(f"{HANDOVER}.lines_of", _all_lines)),
    Attack(
        "tensors-without-end", _tensors_without_end, replacing("driftline.execute.shelf.read_tensors", _all_tensors)
    ),
    Attack("record-is-nested-deeply", _records("[" * 100_000), strict),
    Attack("record-has-a-long-number", _records('{"number": ' + "9" * 5000 + "}"), strict),
    Attack("record-of-another-kind", _records('{"number": "seven"}'), strict),
]
test_attack_fails = both_ways(ATTACKS)


PATHS = ("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))


@pytest.mark.parametrize("task", [FORGE, MISLEAD], ids=lambda task: task.name)
def test_worker_that_writes_no_answer_counts_as_dead(pool: Pool, task: Task[dict[str, Any], Any]) -> None:
    kind = WorkerKind("hostile answers", variables=(PATHS,))
    report = pool.run(kind, task, {})
    assert (report.ending, report.detail, report.answer) == (Ending.DIED, DAMAGED, None)
    assert pool.run(kind, FORGE, {}).ending is Ending.DIED


def test_folder_that_cannot_be_removed_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(f"{WORKSPACE}.remove_tree", lambda path: False)
    with run_in(tmp_path):
        pass
    assert "could not be removed" in capsys.readouterr().err
    assert [path.name.split("-")[0] for path in (tmp_path / "cache" / "scratch").iterdir()] == ["left"]


def test_folders_of_any_kind_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").touch()
    (folder / "link").symlink_to(tmp_path)
    os.mkfifo(folder / "a" / "pipe")
    (folder / "a").chmod(0)
    assert remove_tree(folder)
    assert remove_tree(folder)
    assert list(tmp_path.iterdir()) == []
