"""Judge events from the compiled run's own state. Runs in a worker.

Before an event the process forks. The children go on without the compiler until the event has been observed: the first
one plainly, the second one while recording the tape for the oracle's shadow. A fork copies the whole state, so earlier
roundings of the compiled run do not count against this event.
"""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from driftline.core.tensors import Arrays
from driftline.core.text import first_line
from driftline.core.wire import decode, encode
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.rule import JudgedOutputs, judge_outputs
from driftline.oracle.shadow.player import Player
from driftline.oracle.shadow.tape import OpenOrder, TapeRecorder
from driftline.oracle.shadow.torch.higher_order import plain_operators
from driftline.oracle.shadow.torch.parts import decompositions
from driftline.oracle.shadow.torch.shadow import TorchShadow
from driftline.scenarios.guards import Guards
from driftline.scenarios.recorder import CallRecorder
from driftline.scenarios.recording import ScriptEvent, ScriptRecording, read_recording
from driftline.scenarios.requests import EventQuestion, Rejudged, RejudgeRequest, WrongTensor
from driftline.scenarios.tensors_seen import reading
from driftline.scenarios.walk import StateWalk

_ANSWER = "answer.json"
_TICK = 0.005  # seconds between two checks of a child
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


@dataclass(frozen=True)
class _Judged:
    """The findings of the child that records the tape."""

    wrong: tuple[WrongTensor, ...] = ()
    unjudged: tuple[str, ...] = ()
    note: str = ""


class Rejudge:
    """Answers the questions of a request, while the script runs compiled in this process."""

    def __init__(self, request: RejudgeRequest, recorder: CallRecorder, guards: Guards) -> None:
        self.answers: list[Rejudged] = []
        self._request = request
        self._recorder = recorder
        self._guards = guards
        self._is_child = False
        recorder.before = self._before

    def leave_if_child(self) -> None:
        """Exit with an error if this is a child that did not reach its event."""
        if self._is_child:
            os._exit(1)

    def _before(self, number: int) -> None:
        if self._is_child:
            return
        for question in self._request.questions:
            if question.start == number and not self._is_child:
                self._answer(question)

    def _answer(self, question: EventQuestion) -> None:
        folder = self._request.run.folder / f"event{question.event}"
        folder.mkdir()
        if not self._fork(question, folder, taped=False) or self._is_child:
            return
        if not question.paths:
            self.answers.append(Rejudged(question.event, folder))
            return
        taped = folder / "tape"
        taped.mkdir()
        done = self._fork(question, taped, taped=True)
        if self._is_child:
            return
        path = taped / _ANSWER
        found = (
            decode(_Judged, json.loads(path.read_text())) if done and path.is_file() else _Judged((), question.paths)
        )
        self.answers.append(Rejudged(question.event, folder, found.wrong, found.unjudged, found.note))

    def _fork(self, question: EventQuestion, folder: Path, *, taped: bool) -> bool:
        """Fork a child that observes an event. In the parent, return True if the child succeeded; in the child, return
        True immediately."""
        self._guards.allow_processes = True
        child = os.fork()
        self._guards.allow_processes = False
        if child:
            return _ended_well(child, time.monotonic() + self._request.patience)
        self._is_child = True
        self._recorder.move(folder)
        torch.compiler.set_stance("force_eager")
        self._recorder.eager = True
        self._operators = plain_operators()
        self._recorder.operators = self._operators.__enter__()  # for the rest of this process
        if taped:
            tape = _Taping(question, folder, self._request.compiled, self._request.patience)
            self._recorder.after = tape.after
        else:
            self._recorder.after = lambda event, walk: None
        self._recorder.written = lambda event: os._exit(0) if event.number == question.event else None
        self._recorder.failed = lambda: os._exit(1)
        return True


def _ended_well(child: int, deadline: float) -> bool:
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status == 0
        time.sleep(_TICK)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


class _Taping:
    """Records the tape from here to an event, and judges the tensors of the compiled run by its shadow."""

    def __init__(self, question: EventQuestion, folder: Path, compiled: Path, patience: float) -> None:
        self._question = question
        self._folder = folder
        self._compiled = compiled
        self._deadline = time.monotonic() + patience * 0.9
        self._tape = TapeRecorder(decompositions())
        self._modes: list[Any] = [torch.backends.mkldnn.flags(enabled=False), OpenOrder(self._tape), self._tape]
        for mode in self._modes:  # for the rest of this process
            mode.__enter__()

    def after(self, event: ScriptEvent, walk: StateWalk) -> None:
        """Called in the child after each event."""
        if event.number != self._question.event:
            return
        try:
            with reading():  # without exiting the modes: inside backward() they are temporarily off the stack
                found = self._judge(walk)
        except NoExactReference as reason:
            found = _Judged((), self._question.paths, first_line(str(reason), 200))
        except Exception as error:
            traceback.print_exc()  # into the worker's log
            told = f"it cannot be recorded ({type(error).__name__}: {first_line(str(error), 150)})"
            found = _Judged((), self._question.paths, told)
        (self._folder / _ANSWER).write_text(json.dumps(encode(_Judged, found)))

    def _judge(self, walk: StateWalk) -> _Judged:
        number = self._question.event
        got = _values(read_recording(self._compiled), number, self._question.paths)
        native = _values(read_recording(self._folder.parent), number, self._question.paths)
        tensors = {path: tensor for path, tensor in walk.tensors if type(tensor) in _PLAIN}
        fitting = [
            path
            for path, value in got.items()
            if path in native
            and path in tensors
            and (native[path].dtype, native[path].shape) == (value.dtype, value.shape)
        ]
        unjudged = tuple(path for path in self._question.paths if path not in fitting)
        if strange := next((type(kept) for kept in self._tape.tape.constants if type(kept) not in _PLAIN), None):
            raise NoExactReference(f"tensors of the class {strange.__name__}")
        self._tape.tape.outputs = {path: self._tape.place(tensors[path]) for path in fitting}
        player = Player(TorchShadow(self._tape.tape), self._deadline)
        exact = player.reference()
        found = judge_outputs(
            {path: got[path] for path in fitting}, {path: native[path] for path in fitting}, exact, player.ask
        )
        return _Judged(_wrong(found), (*unjudged, *found.outputs_unjudged))


def _wrong(found: JudgedOutputs) -> tuple[WrongTensor, ...]:
    one = found.finding
    return (WrongTensor(one.output, one.kind, one.evidence, one.reason),) if one else ()


def _values(recording: ScriptRecording, number: int, paths: tuple[str, ...]) -> Arrays:
    event = next(one for one in recording.events if one.number == number)
    seen = {path: event.facts[path].tensor for path in paths if path in event.facts}
    return {path: recording.content(tensor) for path, tensor in seen.items() if tensor and tensor.readable}
