"""Test whether one script text still fails in the same way.

A quick question takes one run without the compiler and one with it. It accepts every difference except between close
numbers. A full question is decided by the judge of `driftline check`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from driftline.core.errors import DriftlineError, InternalError
from driftline.core.handover import remove_folder
from driftline.core.target import Target
from driftline.core.tensors import Array
from driftline.core.verdict import Judgement
from driftline.diagnose.reduce.scripts.likeness import DifferenceSort, place_of, sorts_of
from driftline.diagnose.reduce.search import CandidateAnswer
from driftline.execute.messages import Ending
from driftline.execute.pool import Pool
from driftline.scenarios.compare import RunComparison, printed_difference
from driftline.scenarios.difference import Change
from driftline.scenarios.judge import ScriptResult, judge_script, play_eagerly
from driftline.scenarios.recording import ScriptRecording, read_recording
from driftline.scenarios.requests import RECORD, PlayWay, Recorded, RecordRequest
from driftline.scenarios.runs import ScriptOptions, worker_for_script
from driftline.scenarios.script import UserScript

CLOSE = 1e-3  # of the largest number: a difference below is left to the judge
_NONE: frozenset[DifferenceSort] = frozenset()


@dataclass(frozen=True)
class QuickRun:
    """The record of one run of a text."""

    ending: Ending
    recorded: Recorded
    recording: ScriptRecording

    @property
    def raised(self) -> str:
        """The class of the exception that ended the script."""
        last = self.recording.events[-1].raised if self.recording.events else None
        return last.name if last else ""


class ScriptAsker:
    """Tests texts that replace one script. `backend` is used by quick questions in place of the script's own."""

    def __init__(self, path: Path, pool: Pool, options: ScriptOptions, target: Target | None, backend: str) -> None:
        self._path = path
        self._pool = pool
        self._options = options
        self._target = target
        self.backend = backend
        self.keep: frozenset[DifferenceSort] = _NONE
        self.patience = options.timeout  # seconds for a run of a quick question
        self._judged: dict[str, ScriptResult | None] = {}
        self.raised = ""  # the exception that ends the script without the compiler

    def judged(self, text: str) -> ScriptResult | None:
        """Return the judge's result for a text, or None if the text cannot be judged."""
        if text not in self._judged:
            self._judged[text] = self._judge(text)
        return self._judged[text]

    def first(self, text: str) -> ScriptResult:
        """Return the judge's result for the original script. Raise `DriftlineError` if it cannot be judged."""
        script = UserScript(self._path, text)
        eagerly = play_eagerly(script, self._pool, self._options, self._target, lambda stage: None)
        self._judged[text] = result = judge_script(script, eagerly, self._pool, self._options, self._target)
        return result

    def _judge(self, text: str) -> ScriptResult | None:
        try:
            return self.first(text)
        except (DriftlineError, InternalError):
            return None

    def confirmed(self, text: str) -> bool:
        """True if, according to the judge, a text fails in the same way."""
        result = self.judged(text)
        return bool(result and result.judgement is Judgement.FAIL and sorts_of(result.differences) & self.keep)

    def quick(self, text: str) -> CandidateAnswer:
        """Return the answer to a quick question. An internal error counts as `NEITHER`, since it says nothing about a
        compiler.
        """
        try:
            return self._quick(text)
        except InternalError:
            return CandidateAnswer.NEITHER

    def _quick(self, text: str) -> CandidateAnswer:
        eager = self.run(text, PlayWay.EAGER)
        try:
            if not eager.recording.calls or eager.recorded.trouble or eager.raised != self.raised:
                return CandidateAnswer.NEITHER
            compiled = self.run(text, PlayWay.COMPILED)
            try:
                found = differing(eager, compiled)
            finally:
                remove_folder(compiled.recording.folder)
        finally:
            remove_folder(eager.recording.folder)
        if found & self.keep:
            return CandidateAnswer.SAME
        return CandidateAnswer.OTHER if found else CandidateAnswer.PASS

    def run(self, text: str, way: PlayWay) -> QuickRun:
        """Run a text once, with or without the compiler."""
        folder = self._pool.workspace.job_folder()
        script = UserScript(self._path, text)
        target = Target("aot_eager") if self.backend in ("eager", "aot_eager") else self._target
        report = self._pool.run(
            worker_for_script(script, target),
            RECORD,
            RecordRequest(self._path, text, folder, way, self.backend, seed=self._options.seed),
            timeout=self.patience,
            memory_limit=self._options.memory_limit,
            fresh=True,
        )
        recorded = report.answer or Recorded()
        return QuickRun(report.ending, recorded, read_recording(folder, recorded.printed))


def differing(eager: QuickRun, compiled: QuickRun) -> frozenset[DifferenceSort]:
    """Return the sorts of differences in the first event that differs."""
    one, other = eager.recording, compiled.recording
    if eager.ending is not Ending.DONE or any(event.raised and event.raised.declined for event in other.events):
        return _NONE
    comparison = RunComparison(one, one, one, other)
    same_bits = True
    for number in range(min(len(one.events), len(other.events))):
        stable = comparison.stable(number)
        assert stable
        compared = comparison.event(number, stable)
        same_bits &= compared.same_bits
        sorts = sorts_of(compared.found) | {
            DifferenceSort(Change.VALUE, place_of(path))
            for path in compared.values
            if _far(_content(one, number, path), _content(other, number, path))
        }
        if sorts:
            return sorts
    if compiled.ending is Ending.DIED and len(other.events) < len(one.events):
        return frozenset({DifferenceSort(Change.CRASH, "")})
    asks = eager.recorded.asks_compiler
    if same_bits and not asks and printed_difference(one.printed, one.printed, other.printed):
        return frozenset({DifferenceSort(Change.PRINTED, "")})
    return _NONE


def _content(recording: ScriptRecording, number: int, path: str) -> Array | None:
    fact = recording.events[number].facts.get(path)
    return recording.content(fact.tensor) if fact and fact.tensor and fact.tensor.readable else None


def _far(one: Array | None, other: Array | None) -> bool:
    """True if numbers differ by more than rounding can explain."""
    if one is None or other is None:
        return False
    if one.dtype.kind in "biu":
        return True
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        first, second = one.astype(wide), other.astype(wide)
        if not np.array_equal(np.isfinite(first), np.isfinite(second)):
            return True
        gap = np.nan_to_num(np.abs(first - second), posinf=0.0)
        largest = np.nan_to_num(np.abs(first), posinf=0.0).max(initial=0.0)
    return bool(gap.max(initial=0.0) > CLOSE * largest)
