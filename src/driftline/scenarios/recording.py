"""The recording of one run of a script: its events, with facts about everything a user could see after each of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from driftline.core.errors import DamagedFile
from driftline.core.handover import MOST_TEXT, open_file
from driftline.core.tensors import Array, numpy_dtype
from driftline.core.wire import decode, encode

EVENTS = "events.jsonl"
CONTENTS = "contents.bin"

CALL, MAKE, BACKWARD, GRAD, END = "call", "make", "backward", "grad", "end"  # kinds of events


@dataclass(frozen=True)
class TensorSeen:
    """A tensor after an event. `at` is the offset of its bytes in `CONTENTS`, or -1 if they could not be read."""

    dtype: str
    shape: tuple[int, ...]
    kind: str = "Tensor"  # the class
    device: str = "cpu"
    layout: str = "strided"
    requires_grad: bool = False
    at: int = -1
    digest: str = ""

    @property
    def readable(self) -> bool:
        return self.at >= 0


@dataclass(frozen=True)
class Fact:
    """The value seen at one path: a class or plain value as text, a number, the size of a container, or a tensor."""

    text: str = ""
    number: str = ""  # repr of a float, which rounding may change
    size: int = -1
    tensor: TensorSeen | None = None


@dataclass(frozen=True)
class Raised:
    """An exception that left a call or ended the script."""

    name: str
    bases: tuple[str, ...]  # the names of its class and of all classes above
    message: str = ""
    by_script: bool = False  # raised by a line of the script, not by a library
    by_compiler: bool = False  # its class is one of the compiler's own
    declined: bool = False  # the compiler says that it does not support this

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


@dataclass(frozen=True)
class ScriptEvent:
    """One event of a script, and the facts that could be seen after it."""

    number: int
    kind: str
    name: str = ""  # of the callable
    facts: Mapping[str, Fact] = field(default_factory=dict)
    shared: tuple[tuple[str, str], ...] = ()  # paths of tensors that overlap in memory
    raised: Raised | None = None
    judged: bool = True  # False if the event is not compared
    folded: bool = False  # weights may have been folded, which rounds differently
    plain: bool = False  # operators like torch.cond were executed plainly up to here


@dataclass(frozen=True)
class ScriptRecording:
    """The events of one run, and the folder with the bytes of their tensors."""

    folder: Path
    events: tuple[ScriptEvent, ...] = ()
    printed: str = ""

    @property
    def calls(self) -> int:
        """The number of calls of compiled callables."""
        return sum(event.kind == CALL for event in self.events)

    def content(self, tensor: TensorSeen) -> Array:
        """Return the values of a readable tensor."""
        kind = numpy_dtype(tensor.dtype)
        count = int(np.prod(tensor.shape, dtype=np.int64))
        with open_file(self.folder / CONTENTS) as file:
            if count < 0 or tensor.at < 0 or tensor.at + count * kind.itemsize > os.fstat(file.fileno()).st_size:
                raise DamagedFile("a tensor of the recording is not in its file")
            file.seek(tensor.at)
            data = file.read(count * kind.itemsize)
        return np.frombuffer(data, dtype=kind).reshape(tensor.shape)


def write_event(event: ScriptEvent) -> str:
    """Return the event as one line of `EVENTS`. The text of facts is cached, because most repeat in the next event."""
    facts = ", ".join(f"{_quoted(path)}: {_written(fact)}" for path, fact in event.facts.items())
    rest = json.dumps(encode(ScriptEvent, replace(event, facts={})))
    return f'{rest[:-1]}, "facts": {{{facts}}}}}\n' if facts else rest + "\n"


@lru_cache(maxsize=10_000)
def _written(fact: Fact) -> str:
    return json.dumps(encode(Fact, fact))


@lru_cache(maxsize=10_000)
def _quoted(path: str) -> str:
    return json.dumps(path)


def read_recording(folder: Path, printed: str = "") -> ScriptRecording:
    """Read the recording in a folder. An incomplete last line, left by a killed process, is dropped."""
    try:
        with open_file(folder / EVENTS) as file:
            lines = file.read(MOST_TEXT).decode().splitlines(keepends=True)
    except FileNotFoundError:
        lines = []
    events = tuple(decode(ScriptEvent, json.loads(line)) for line in lines if line.endswith("\n"))
    return ScriptRecording(folder, events, printed)
