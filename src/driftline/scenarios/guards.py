"""The restricted environment of a recorded script: no standard input, no arguments, no other processes, and captured
output. Set up in a worker, for the rest of its life."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import torch

from driftline.scenarios.requests import Trouble

MOST_PRINTED = 1 << 18  # characters that are kept
_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec")
_TORCH = str(Path(torch.__file__).parent)


class ProcessRefused(PermissionError):
    """Raised when a recorded script tries to start a process."""


class Guards:
    """Refuses what a recorded script must not use, and captures its output. `trouble` is the first refusal."""

    def __init__(self, script: Path) -> None:
        self.trouble: Trouble | None = None
        self.detail = ""
        self.allow_processes = False
        self._printed = io.BytesIO()
        sys.stdin = _NoInput(self)
        sys.argv = _OnlyItsName([str(script)], self)
        # Implemented in C only: Dynamo would try to compile a stream that is written in Python.
        sys.stdout = io.TextIOWrapper(self._printed, encoding="utf-8", errors="backslashreplace", write_through=True)
        sys.addaudithook(self._audit)

    def note(self, trouble: Trouble, detail: str = "") -> None:
        """Record why the script cannot be judged; only the first reason is kept."""
        if self.trouble is None:
            self.trouble, self.detail = trouble, detail

    def printed(self) -> tuple[str, int]:
        """Return the beginning of the printed text, and the size of all of it in bytes."""
        data = self._printed.getvalue()
        return data[:MOST_PRINTED].decode(errors="replace"), len(data)

    def _audit(self, event: str, arguments: Any) -> None:
        if event not in _STARTS or self.allow_processes or _is_by_torch():
            return
        self.note(Trouble.PROCESS, event)
        raise ProcessRefused(f"{event}: a script that is recorded cannot start processes")


def _is_by_torch() -> bool:
    """True if torch is among the callers: it may start a C++ compiler."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_TORCH):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


class _NoInput(io.TextIOBase):
    def __init__(self, guards: Guards) -> None:
        self._guards = guards

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> str:
        return self._refuse()

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        return self._refuse()

    def __next__(self) -> str:  # type: ignore[override]
        return self._refuse()

    def _refuse(self) -> str:
        self._guards.note(Trouble.STDIN)
        raise EOFError("a script that is recorded has no standard input")


class _OnlyItsName(list):  # type: ignore[type-arg]
    """The arguments of a script: its name alone. Access to further arguments is recorded."""

    def __init__(self, words: list[str], guards: Guards) -> None:
        super().__init__(words)
        self._guards = guards

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int) and not -len(self) <= place < len(self):
            self._guards.note(Trouble.ARGUMENTS)
        return super().__getitem__(place)


def fill_fresh_memory(byte: int) -> None:
    """Fill newly allocated memory with this byte, since a script must not depend on its contents."""
    import ctypes

    perturb = -6  # M_PERTURB of mallopt
    if os.name == "posix":
        getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)(perturb, byte)
