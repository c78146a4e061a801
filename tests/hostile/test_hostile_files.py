"""A hostile store: links, pipes and endless files in the places of the files that Driftline reads."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from driftline.causes import Library
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.wire import encode
from driftline.perf.journal import PerfHuntEntry, PerfJournal, PerfPlan
from driftline.serve import records
from driftline.serve.keeper import JobKeeper
from driftline.serve.orders import CheckOrder, HuntOrder
from driftline.serve.records import JobProgress, JobRecord
from driftline.serve.settings import ServeSettings
from driftline.serve.work import do
from driftline.store import Store
from driftline.store.objects import Objects
from driftline.store.remote import push
from driftline.store.source import open_source
from hostile.attack import Attack, both_ways, replacing

SECRET = "root:the secret of the user"
ORDER = HuntOrder(seconds=1.0)


def keeper(store: Path) -> JobKeeper:
    return JobKeeper(ServeSettings(store, Library(())))


def job(store: Path, record: JobRecord | None = None) -> Path:
    """A job as a stranger writes one."""
    Store.create(store).close()
    folder = store / "jobs" / "1"
    folder.mkdir(parents=True)
    records.save(folder, record or JobRecord(1, ORDER, "2026-01-01T00:00:00Z"))
    return folder


def secret(folder: Path, text: str = SECRET) -> Path:
    path = folder / "secret"
    path.write_text(text)
    return path


@contextlib.contextmanager
def pipe(path: Path, text: str) -> Iterator[None]:
    """A pipe that says the text to whoever opens it, and keeps others waiting."""
    os.mkfifo(path)

    def speak() -> None:
        with contextlib.suppress(OSError), open(path, "w") as file:
            file.write(text)

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # so that the speaker need not wait any longer
        speaker.join(5)
        os.close(fd)


def _log_link(place: Path) -> str:
    folder = job(place / "store")
    (folder / "log.txt").symlink_to(secret(place))
    return SECRET if SECRET in keeper(place / "store").job(1).log else ""


def _log_pipe(place: Path) -> str:
    folder = job(place / "store")
    with pipe(folder / "log.txt", SECRET):
        return keeper(place / "store").job(1).log


def _record_link(place: Path) -> str:
    folder = job(place / "store")
    (folder / "job.json").rename(place / "elsewhere")
    (folder / "job.json").symlink_to(place / "elsewhere")
    return "shown" if keeper(place / "store").jobs() else ""


def _progress(place: Path) -> str:
    return json.dumps(encode(JobProgress, JobProgress(doing=SECRET)))


def _progress_link(place: Path) -> str:
    folder = job(place / "store")
    (folder / "progress.json").symlink_to(secret(place, _progress(place)))
    return keeper(place / "store").job(1).progress.doing


def _progress_pipe(place: Path) -> str:
    folder = job(place / "store")
    with pipe(folder / "progress.json", _progress(place)):
        return keeper(place / "store").job(1).progress.doing


def _progress_huge(place: Path) -> str:
    folder = job(place / "store")
    with open(folder / "progress.json", "w") as file:
        file.write(_progress(place))
        file.write(" " * (9 << 20))
    return keeper(place / "store").job(1).progress.doing


def _progress_deep(place: Path) -> str:
    folder = job(place / "store")
    (folder / "progress.json").write_text("[" * 200_000)
    try:
        keeper(place / "store").jobs()
    except RecursionError:
        return "the page is gone"
    return ""


def _jobs_link(place: Path) -> str:
    job(place / "other")
    Store.create(place / "store").close()
    (place / "store" / "jobs").symlink_to(place / "other" / "jobs")
    return "shown" if keeper(place / "store").jobs() else ""


def _jobs_link_written(place: Path) -> str:
    (place / "victim").mkdir()
    Store.create(place / "store").close()
    (place / "store" / "jobs").symlink_to(place / "victim")
    with contextlib.suppress(DriftlineError):
        records.new_folder(place / "store")
    return "written" if list((place / "victim").iterdir()) else ""


def _program_link(place: Path) -> str:
    """A check whose program is a link: the file behind the link would be read and kept."""
    opened: list[str] = []

    class Bench:
        def check(self, program: str, **_: object) -> None:
            opened.append(Path(program).read_text())
            raise DriftlineError("no program")

    order = CheckOrder("model.onnx", "model.onnx")
    folder = job(place / "store", JobRecord(1, order, "2026-01-01T00:00:00Z"))
    (folder / "model.onnx").symlink_to(secret(place))
    with contextlib.suppress(DriftlineError):
        do(JobRecord(1, order, ""), Bench(), folder, lambda *_: None)  # type: ignore[arg-type]
    return "".join(opened)


def _again_link(place: Path) -> str:
    order = CheckOrder("model.onnx", "model.onnx")
    folder = job(place / "store", JobRecord(1, order, "2026-01-01T00:00:00Z"))
    (folder / "model.onnx").symlink_to(secret(place))
    with contextlib.suppress(DriftlineError):
        keeper(place / "store").again(1)
    copied = place / "store" / "jobs" / "2" / "model.onnx"
    return copied.read_text() if copied.exists() else ""


def _foreign_process(place: Path) -> str:
    """A record that names another process of the user, which the server would stop."""
    victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        born = psutil.Process(victim.pid).create_time()
        job(place / "store", JobRecord(1, ORDER, "2026-01-01T00:00:00Z", pid=victim.pid, born=born))
        server = keeper(place / "store")
        server.stop(1)
        server.stop(1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            victim.wait(0.3)
        return "" if victim.poll() is None else "the process was stopped"
    finally:
        victim.kill()
        victim.wait()


def _perf_link(place: Path) -> str:
    Store.create(place / "store").close()
    (place / "store" / "perf-hunts").mkdir()
    entry = json.dumps(encode(PerfHuntEntry, PerfHuntEntry(1, PerfPlan(("eager",)))))
    (place / "store" / "perf-hunts" / "1.json").symlink_to(secret(place, entry))
    with Store.open(place / "store") as store:
        try:
            return str(PerfJournal(store).unfinished())
        except DriftlineError:
            return ""


def _perf_folder_link(place: Path) -> str:
    Store.create(place / "store").close()
    (place / "victim").mkdir()
    (place / "store" / "perf-hunts").symlink_to(place / "victim")
    with Store.open(place / "store") as store, contextlib.suppress(DriftlineError):
        PerfJournal(store).begin(PerfPlan(("eager",)))
    return "written" if list((place / "victim").iterdir()) else ""


def _object_folder_link(place: Path) -> str:
    (place / "victim").mkdir(mode=0o755)
    (place / "store").mkdir()
    (place / "store" / "objects").symlink_to(place / "victim")
    with contextlib.suppress(DriftlineError):
        Store.create(place / "store").close()
    return "its rights were changed" if (place / "victim").stat().st_mode & 0o777 != 0o755 else ""


def _object_link(place: Path) -> str:
    """An object that is a link to a file of the user, whose content the stranger guessed."""
    objects = Objects(place / "objects", place)
    digest = objects.put(secret(place))
    objects.path(digest).unlink()
    objects.path(digest).symlink_to(place / "secret")
    try:
        return str(objects.existing(digest))
    except DriftlineError:
        return ""


def _pushed_link(place: Path) -> str:
    """What is pushed to a shared address must not be what a link in the store leads to."""
    with Store.create(place / "store") as store:
        digest = store.put_file(secret(place))
        path = store.object_path(digest)
    path.unlink()
    path.symlink_to(place / "secret")
    push(place / "store", str(place / "shared"))
    return "sent" if list((place / "shared" / "objects").glob("*/*")) else ""


def _database_link(opened: Callable[[Path], object]) -> Callable[[Path], str]:
    """A database that is a link to another one of the user."""

    def run(place: Path) -> str:
        Store.create(place / "mine").close()
        (place / "store").mkdir()
        (place / "store" / "store.db").symlink_to(place / "mine" / "store.db")
        try:
            opened(place / "store")
        except DriftlineError as error:
            assert "symbolic link" in str(error)
            return ""
        return "opened"

    return run


def _browse(path: Path) -> None:
    """Opens a store in which nothing may be written."""
    with pytest.MonkeyPatch.context() as user:
        user.setattr("os.access", lambda *_: False)
        Store.open(path).close()


def _merge(path: Path) -> None:
    with open_source(path):
        pass


def _huge_program(place: Path) -> str:
    """A case whose program is a text of gigabytes: a hole in a file costs the stranger nothing."""
    (place / "huge").touch()
    os.truncate(place / "huge", 65 << 20)
    with Store.create(place / "store") as store:
        digest = store.put_file(place / "huge")
        program = Program("source", "torch", digest, place / "huge", "m.py:f", ())
        case = store.save_case(Case(program, (), (Target("eager"),), CheckOptions()))
        try:
            return f"{store.load_case(case).program.path.stat().st_size:,} bytes would be read"
        except DriftlineError:
            return ""


unguarded = replacing("driftline.core.private._open_to_read", lambda path: os.open(path, os.O_RDONLY))
any_file = replacing("stat.S_ISREG", lambda mode: True)
any_length = replacing("driftline.serve.records._MOST", 1 << 40)
followed = replacing("pathlib.Path.is_symlink", lambda path: False)


def unguarded_pipes(weak: pytest.MonkeyPatch) -> None:
    """As `read_text` opens and reads: waiting, whatever the file is."""
    unguarded(weak)
    any_file(weak)
    for name in ("keeper.read_end", "records.read_plain"):
        weak.setattr(f"driftline.serve.{name}", lambda path, most: path.read_bytes())


def no_plain_files(weak: pytest.MonkeyPatch) -> None:
    for module in ("store", "source"):
        weak.setattr(f"driftline.store.{module}.require_plain_files", lambda path: None)


def no_recursion_guard(weak: pytest.MonkeyPatch) -> None:
    weak.setattr("driftline.serve.records.RecursionError", ValueError, raising=False)


ATTACKS = [
    Attack("log-is-a-link", _log_link, unguarded),
    Attack("log-is-a-pipe", _log_pipe, unguarded_pipes),
    Attack("record-is-a-link", _record_link, unguarded),
    Attack("progress-is-a-link", _progress_link, unguarded),
    Attack("progress-is-a-pipe", _progress_pipe, unguarded_pipes),
    Attack("progress-is-huge", _progress_huge, any_length),
    Attack("progress-is-deep", _progress_deep, no_recursion_guard),
    Attack("jobs-are-elsewhere", _jobs_link, followed),
    Attack("jobs-are-written-elsewhere", _jobs_link_written, followed),
    Attack("program-of-a-job-is-a-link", _program_link, unguarded),
    Attack("program-of-a-job-is-copied", _again_link, unguarded),
    Attack("job-names-another-process", _foreign_process, replacing("driftline.serve.keeper._does", lambda *_: True)),
    Attack("perf-hunt-is-a-link", _perf_link, unguarded),
    Attack("perf-hunts-are-written-elsewhere", _perf_folder_link, followed),
    Attack("objects-are-elsewhere", _object_folder_link, followed),
    Attack("object-is-a-link", _object_link, unguarded),
    Attack(
        "link-is-pushed",
        _pushed_link,
        lambda weak: (unguarded(weak), followed(weak)),  # type: ignore[arg-type,return-value]
    ),
    Attack("program-is-huge", _huge_program, replacing("driftline.store.store.MOST_TEXT", 1 << 40)),
    Attack("database-is-a-link", _database_link(_browse), no_plain_files),
    Attack("merged-database-is-a-link", _database_link(_merge), no_plain_files),
]
test_attack_fails = both_ways(ATTACKS)


def test_a_device_in_place_of_a_log_is_not_read(tmp_path: Path) -> None:
    folder = job(tmp_path / "store")
    (folder / "log.txt").symlink_to("/dev/zero")
    (folder / "progress.json").symlink_to("/dev/zero")
    shown = keeper(tmp_path / "store").job(1)
    assert (shown.log, shown.progress) == ("", JobProgress())


def test_only_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    folder = job(tmp_path / "store")
    with open(folder / "log.txt", "wb") as file:
        file.truncate(1 << 40)  # a hole: nothing of it is on the disk
        file.seek(0, os.SEEK_END)
        file.write(b"the end")
    assert keeper(tmp_path / "store").job(1).log.endswith("the end")
