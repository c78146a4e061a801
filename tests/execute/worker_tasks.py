"""Tasks that misbehave, run in workers by the tests of the pool."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driftline.core.scratch import scratch_folder
from driftline.core.task import Service, Task

Payload = dict[str, Any]


def task(function: Callable[[Payload, Any], Any]) -> Service[Payload, Payload]:
    """These are asked in all kinds of ways: what they are given and answer is plain data."""
    return Task(f"worker_tasks:{function.__name__}", Payload, Payload).serve(function)


@task
def identify(payload: Payload, context: Any) -> Payload:
    return {"pid": os.getpid(), "group": os.getpgid(0), **payload}


def is_fit(answer: str) -> bool:
    return {"yes": True, "no": False}[answer]


_left: list[Any] = []


@task
def leave_behind(payload: Payload, context: Any) -> Payload:
    """Keep something in the process, and say what is there."""
    _left.append(payload["what"])
    return {"pid": os.getpid(), "left": _left}


@task
def size(payload: Payload, context: Any) -> Payload:
    return {"size": len(payload["text"])}


@task
def stage_then(payload: Payload, context: Any) -> Payload:
    """Enter a stage, then end as another task does."""
    context.enter("COMPILE")
    context.enter("RUN")
    result: Payload = globals()[payload["then"]](payload, context)
    return result


@task
def dies_until(payload: Payload, context: Any) -> Payload:
    """Killed in its first runs, as if by somebody else."""
    folder = Path(payload["folder"])
    (folder / str(os.getpid())).touch()
    runs = len(list(folder.iterdir()))
    if runs <= payload["times"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"runs": runs}


@task
def breed(payload: Payload, context: Any) -> None:
    """Start processes without end, in a session of their own. Not each by each: the machine has to bear the test."""
    while True:
        if os.fork() == 0:
            os.setsid()
            (Path(payload["folder"]) / str(os.getpid())).touch()
            time.sleep(600)
        time.sleep(0.005)


@task
def write_far(payload: Payload, context: Any) -> Payload:
    """A file beyond all limits; sparse, so that nothing is on the disk."""
    with tempfile.TemporaryFile() as file:
        try:
            file.truncate(payload["bytes"])
        except OSError as error:
            return {"errno": error.errno}
    return {"errno": 0}


@task
def segfault(payload: Payload, context: Any) -> None:
    ctypes.string_at(0)


@task
def abort(payload: Payload, context: Any) -> None:
    os.abort()


@task
def leave(payload: Payload, context: Any) -> None:
    os._exit(payload["code"])


@task
def sys_exit(payload: Payload, context: Any) -> None:
    sys.exit(payload["code"])


@task
def raise_error(payload: Payload, context: Any) -> None:
    raise ValueError("the task is mistaken")


@task
def raise_memory_error(payload: Payload, context: Any) -> None:
    raise MemoryError


@task
def hang(payload: Payload, context: Any) -> None:
    """Signals are of no use against it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if "pid_file" in payload:
        _write_pid(payload["pid_file"], os.getpid())
    while True:
        time.sleep(1000)


@task
def wait_for(payload: Payload, context: Any) -> Payload:
    """Until a file is there."""
    _write_pid(payload["pid_file"], os.getpid())
    _wait_for(payload["file"])
    return {}


def _wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


@task
def eat_memory(payload: Payload, context: Any) -> None:
    eaten = []
    while True:
        eaten.append(b"x" * (8 << 20))
        time.sleep(0.005)  # so that a broken limit takes the machine slowly enough to be noticed


@task
def use_memory(payload: Payload, context: Any) -> Payload:
    return {"used": len(b"x" * payload["bytes"])}


_held: list[bytes] = []


@task
def keep_memory(payload: Payload, context: Any) -> Payload:
    _held.append(b"x" * payload["bytes"])
    return {"pid": os.getpid()}


@task
def use_memory_in_child(payload: Payload, context: Any) -> None:
    if os.fork() == 0:
        eat_memory(payload, context)
    hang(payload, context)


@task
def shout(payload: Payload, context: Any) -> Payload:
    line = "x" * 1023 + "\n"
    for _ in range(payload["kilobytes"] // 2):
        sys.stdout.write(line)
        sys.stderr.write(line)
    os.write(1, b"from below Python\n")
    print("the last words", file=sys.stderr)
    return {"said": payload["kilobytes"]}


@task
def shout_forever(payload: Payload, context: Any) -> None:
    block = b"y" * (1 << 20)
    while True:
        os.write(1, block)


@task
def close_streams(payload: Payload, context: Any) -> Payload:
    sys.stdout.close()
    sys.stderr.close()
    for fd in (1, 2):
        with contextlib.suppress(OSError):
            os.close(fd)
    return {"closed": True}


@task
def say(payload: Payload, context: Any) -> Payload:
    print(payload["words"])
    return {"pid": os.getpid()}


@task
def close_connection(payload: Payload, context: Any) -> None:
    os.closerange(3, 256)
    while True:
        time.sleep(1000)


@task
def answer_with_object(payload: Payload, context: Any) -> Payload:
    return {"object": object()}


@task
def family_then(payload: Payload, context: Any) -> Payload:
    """Leave processes behind: a plain child, one that ignores signals, one in a session of its own, an orphan."""
    folder = Path(payload["folder"])
    _start(folder / "plain", _sleep)
    _start(folder / "stubborn", lambda: hang({}, None))
    _start(folder / "session", lambda: (os.setsid(), _sleep()))
    _start(folder / "orphan_parent", lambda: (os.setsid(), _start(folder / "orphan", _sleep)))
    os.waitpid(int((folder / "orphan_parent").read_text()), 0)
    _start(folder / "bare", lambda: os.execve("/bin/sleep", ["sleep", "1000"], {}))
    result: Payload = globals()[payload["then"]](payload, context)
    return result


def _sleep() -> None:
    time.sleep(1000)


def _start(pid_file: Path, work: Any) -> None:
    """Fork a process that does `work`; its pid is in the file when this returns."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    _write_pid(pid_file, pid)


def _write_pid(path: str | Path, pid: int) -> None:
    part = Path(f"{path}.part")
    part.write_text(str(pid))
    part.rename(path)


# -- warm functions, called in the nursery -----------------------------------------------------------------------------


def warm_nothing(argument: Any) -> None:
    pass


def warm_raises(argument: Any) -> None:
    raise ImportError("libcompiler.so.1: cannot open shared object file")


def warm_exits(argument: Any) -> None:
    sys.exit("no licence")


def warm_kills_itself(argument: Any) -> None:
    print("about to go", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def warm_kills_itself_until(argument: list[Any]) -> None:
    """As if somebody else killed the process the first few times."""
    folder, times = Path(argument[0]), argument[1]
    if len(list(folder.iterdir())) < times:
        (folder / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def warm_hangs(pid_file: str) -> None:
    _write_pid(pid_file, os.getpid())
    _start(Path(f"{pid_file}.child"), _sleep)
    time.sleep(1000)


def warm_waits(pid_file: str) -> None:
    _write_pid(pid_file, os.getpid())
    _wait_for(f"{pid_file}.go")


@task
def leave_files(payload: Payload, context: Any) -> Payload:
    """Temporary files that are never deleted: some by name, one in the working folder."""
    made = [scratch_folder(f"made-{number}") for number in range(payload["folders"])]
    Path("left").touch()
    return {"folder": tempfile.gettempdir(), "made": [folder.exists() for folder in made], "here": str(Path.cwd())}
