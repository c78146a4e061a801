"""Runs one program of a stranger to its end: in the sandbox, with limits on its resources, its output and its files.

A small process (`supervisor.py`) starts the program and ends everything that the program started. The beginning and the
end of the program's output are kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from driftline.core.errors import DriftlineError
from driftline.core.secrets import without_keys
from driftline.execute import limits
from driftline.execute.processes import TAG, kill_tagged
from driftline.execute.supervisor import NO_SANDBOX, ConfinedEnd, ConfinedOrder

MEMORY = 8 << 30
FILE_SIZE = 8 << 30
PRINTED = 1 << 20  # bytes that are kept of the beginning of each stream, and as many of its end
_GRACE = 30.0  # seconds for the supervisor to end what it started
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from driftline.execute.supervisor import main; main()"
)  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How a program ended: its exit code, or `None` and the reason why it was stopped."""

    status: int | None
    why: str
    output: str
    errors: str
    seconds: float


@dataclass(frozen=True)
class Allowed:
    """The limits of a program: the folders that it may write to, its time and its memory."""

    writable: tuple[Path, ...]
    seconds: float
    memory: int  # bytes of all its processes together


def run_confined(command: Sequence[str], folder: Path, variables: dict[str, str], allowed: Allowed) -> Ended:
    """Run a program in `folder`, with only these environment variables. No process of the program is left when this
    returns. Raises `DriftlineError` if the sandbox cannot be set up."""
    began = time.monotonic()
    tag = f"{folder}/"
    order = ConfinedOrder(
        tuple(command), {**variables, TAG: tag}, tuple(map(str, allowed.writable)), allowed.seconds, allowed.memory,
        limits.PROCESSES, FILE_SIZE,
    )  # fmt: skip
    reading, writing = os.pipe()
    package = str(Path(__file__).resolve().parents[2])
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, package, str(writing), json.dumps(asdict(order))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[writing], cwd=folder,
            env=without_keys(os.environ), start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(writing)
    try:
        printed = _read_all(process, reading, began + allowed.seconds + _GRACE)
    finally:
        _end(process, tag)
        os.close(reading)
    outcome = _outcome(printed[2])
    if outcome.status is not None and os.waitstatus_to_exitcode(outcome.status) == NO_SANDBOX:
        raise DriftlineError(f"The sandbox could not be set up: {printed[1].strip()[-300:]}")
    status = None if outcome.status is None else os.waitstatus_to_exitcode(outcome.status)
    return Ended(status, outcome.why, printed[0], printed[1], time.monotonic() - began)


class _Kept:
    """Keeps the beginning and the end of a stream."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        taken = min(len(data), self._most - len(self._head))
        self._head += data[:taken]
        self._tail += data[taken:]
        if (over := len(self._tail) - self._most) > 0:
            del self._tail[:over]
            self._dropped += over

    def text(self) -> str:
        cut = f"\n[{self._dropped:,} bytes are left out]\n".encode() if self._dropped else b""
        return bytes(self._head + cut + self._tail).decode(errors="replace")


def _read_all(process: subprocess.Popen[bytes], report: int, deadline: float) -> tuple[str, str, str]:
    """Read stdout, stderr and the report until all are closed."""
    assert process.stdout
    assert process.stderr
    kept = {process.stdout.fileno(): _Kept(PRINTED), process.stderr.fileno(): _Kept(PRINTED), report: _Kept(1 << 16)}
    with selectors.DefaultSelector() as ready:
        for descriptor in kept:
            ready.register(descriptor, selectors.EVENT_READ)
        while ready.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                data = os.read(key.fd, 1 << 16)
                kept[key.fd].add(data)
                if not data:
                    ready.unregister(key.fd)
    output, errors, told = (one.text() for one in kept.values())
    return output, errors, told


def _end(process: subprocess.Popen[bytes], tag: str) -> None:
    """Tell the supervisor to end the program, and wait; if the supervisor is dead, kill the processes by their tag."""
    assert process.stdin
    process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    if process.returncode != 0:
        process.kill()
        process.wait()
        kill_tagged(tag)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def _outcome(told: str) -> ConfinedEnd:
    try:
        return ConfinedEnd(**json.loads(told))
    except (ValueError, TypeError):
        return ConfinedEnd(None, "the process that watches over it was killed")
