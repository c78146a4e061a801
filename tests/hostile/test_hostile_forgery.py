"""A program that answers in the place of its worker: with faults of Driftline, and with answers to no question."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from forgers import MISTAKE

from driftline.checking.batch_requests import JUDGE_MANY, JudgeRequest
from driftline.checking.screener import _take_casualty
from driftline.cli import run
from driftline.core import strangers
from driftline.core.case_files import CaseFiles
from driftline.core.errors import InternalError
from driftline.core.execution import Outcome, Stage
from driftline.core.program import Program
from driftline.core.task import Task
from driftline.core.wire import DAMAGES, loads
from driftline.execute.messages import Ending
from driftline.execute.pool import Pool, WorkerKind, _read_answer
from driftline.execute.requests import RUN, BatchJob, Ran, RunRequest
from driftline.execute.task_report import TaskReport
from driftline.oracle.reference import COMPUTE, ReferenceRequest
from driftline.programs.convert import TO_ONNX, ConvertRequest
from driftline.programs.described import INSPECT, InspectRequest
from hostile.attack import Attack, both_ways, replacing

pytest.importorskip("torch")

FORGER = """
import gc
import sys
import torch
from driftline.execute.channel import Channel
from driftline.execute.messages import Mistaken

def doing():
    frame = sys._getframe()
    while frame:
        if "driftline" in frame.f_code.co_filename:
            yield frame.f_code.co_filename.rpartition("/")[2] + ":" + frame.f_code.co_name
        frame = frame.f_back

def make():
    if "{task}" in doing():
        for one in gc.get_objects():
            if isinstance(one, Channel):
                one.send(Mistaken("KeyError: 'forged'", "Traceback of nothing"))
    return torch.nn.Identity(), (torch.ones(3),)
"""


def _forged(task: str) -> Callable[[Path], str]:
    """Checks a program whose process says, during one task, that Driftline failed."""

    def play(place: Path) -> str:
        (place / "net.py").write_text(FORGER.format(task=task))
        words = ["check", f"{place}/net.py:make", "--targets", "aot_eager", "--store", f"{place}/s", "--calls", "1"]
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = run(words)
        assert "Traceback (most" not in said.getvalue()
        assert code in (0, 2, 3, 5), said.getvalue()
        return "exit code 3: this is a bug in Driftline" if code == 3 else ""

    return play


def _program(place: Path) -> Program:
    return Program("source", "torch", "d" * 64, place / "program", "program")


@dataclass(frozen=True)
class _Asked:
    """A task with a request, and an answer that does not belong to it."""

    task: Task[Any, Any]
    request: Callable[[Path], Any]
    answer: Any


def _case(place: Path) -> CaseFiles:
    return CaseFiles(_program(place), (place / "input0",), place)


def _run_request(place: Path) -> RunRequest:
    return RunRequest(_case(place), "aot_eager", {})


def _convert_request(place: Path) -> ConvertRequest:
    return ConvertRequest(_program(place), place / "example", place / "out", {}, 0)


def _inspect_request(place: Path) -> InspectRequest:
    return InspectRequest("source", place / "net.py", "net.py:make", place)


OK = {"outcome": "OK", "stage": "RUN"}
MISFITS = {
    "no-output-for-a-sample": _Asked(RUN, _run_request, OK),
    "more-outputs-than-samples": _Asked(RUN, _run_request, {**OK, "outputs": ["a", "b"]}),
    "more-calls-than-asked": _Asked(RUN, _run_request, {**OK, "outputs": ["a"], "repeated": ["a"] * 9}),
    "endless-duration": _Asked(RUN, _run_request, {**OK, "outputs": ["a"], "durations": {"run": float("inf")}}),
    "no-duration": _Asked(RUN, _run_request, {**OK, "outputs": ["a"], "durations": {"run": float("nan")}}),
    "no-reference-for-a-sample": _Asked(COMPUTE, lambda place: ReferenceRequest(_case(place), "torch"), {}),
    "reference-of-nothing": _Asked(
        COMPUTE, lambda place: ReferenceRequest(_case(place), "torch"), {"samples": [{"seconds": 1.0}]}
    ),
    "judgement-of-nothing": _Asked(
        JUDGE_MANY, lambda place: JudgeRequest((), False, False), {"verdicts": [{"verdict": {"judgement": "pass"}}]}
    ),
    "weights-elsewhere": _Asked(TO_ONNX, _convert_request, {"outcome": "OK", "data": ["../../programs/other"]}),
    "inputs-of-no-type": _Asked(
        INSPECT,
        _inspect_request,
        {"described": {"framework": "torch", "inputs": [{"name": "x", "dtype": "object", "shape": [2]}]}},
    ),
    "weights-of-no-size": _Asked(
        INSPECT, _inspect_request, {"described": {"framework": "torch", "inputs": [], "weights": 10**400}}
    ),
    "framework-of-no-name": _Asked(INSPECT, _inspect_request, {"described": {"framework": "../x", "inputs": []}}),
}


def _misfit(asked: _Asked) -> Callable[[Path], str]:
    def play(place: Path) -> str:
        report: TaskReport[Any] = TaskReport(Ending.DONE, asked.answer)
        return "it is used" if _read_answer(asked.task, asked.request(place), report).answer is not None else ""

    return play


def _any_fits(asked: _Asked) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda weak: weak.setitem(vars(asked.task), "fits", lambda request, answer: True)


def _half_character(place: Path) -> str:
    """Half of a pair of characters, which no file and no database takes."""
    try:
        told = loads(b'["\\ud800"]')[0]
    except DAMAGES:
        return ""
    try:
        (place / "log").write_text(told)
    except UnicodeEncodeError:
        return "the parent cannot write it"
    return ""


def _many_values(place: Path) -> str:
    """Empty lists: two bytes of a message, and thirty times as much in memory."""
    with pytest.MonkeyPatch.context() as small:
        small.setattr("driftline.core.wire.MOST_VALUES", 1000)
        try:
            return f"{len(loads('[' + '[],' * 5000 + '1]')):,} values are made"
        except DAMAGES:
            return ""


STAGE = f"{'9' * 5000} RUN"  # too long for a number


def _stage_of_no_program(place: Path) -> str:
    waiting = {1: BatchJob(1, _program(place), "", False, 0, "")}
    try:
        _take_casualty(STAGE, Ran(Outcome.CRASH, Stage.RUN), {}, waiting, {}, 1)
    except ValueError:
        return "the hunt ends with ValueError"
    return ""


TASKS = {"inspect": "inspect.py:inspect", "compute": "reference.py:compute", "run": "tasks.py:run"}
ATTACKS = [
    *(
        Attack(f"fault-of-driftline-in-{name}", _forged(task), replacing("driftline.core.strangers.admit", bool))
        for name, task in TASKS.items()
    ),
    *(Attack(f"answer-with-{name}", _misfit(asked), _any_fits(asked)) for name, asked in MISFITS.items()),
    Attack("answer-with-half-a-character", _half_character, replacing(f"{__name__}.loads", json.loads)),
    Attack("answer-of-many-values", _many_values, replacing("driftline.core.wire.values_in", lambda data: 0)),
]
test_attack_fails = both_ways(ATTACKS)


def test_stage_of_no_program_ends_no_hunt(tmp_path: Path) -> None:
    assert not _stage_of_no_program(tmp_path)


PATHS = ("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))


def test_fault_of_a_task_is_told_where_no_stranger_runs(pool: Pool) -> None:
    kind = WorkerKind("hostile answers", variables=(PATHS,))
    with strangers.one_run(), pytest.raises(InternalError, match="a fault of the task"):
        pool.run(kind, MISTAKE, {})
    with strangers.one_run():
        strangers.admit()
        report = pool.run(kind, MISTAKE, {})
    assert report.answer is None
    assert "a fault of the task" in report.spoilt
    assert "in mistake" in report.log
