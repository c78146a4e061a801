"""Judge a script: execute it with and without the compiler, compare event by event, and ask the oracle about values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftline.checking.open import ENTRY_POINTS
from driftline.core.announce import Announce
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.tensors import Array
from driftline.core.text import plural
from driftline.core.verdict import Judgement
from driftline.execute.messages import Ending
from driftline.execute.pool import Pool
from driftline.oracle.compare import Expected, compare_values
from driftline.scenarios.compare import ComparedEvent, RunComparison, Stable, compare_event, printed_difference
from driftline.scenarios.difference import Change, Difference, moment
from driftline.scenarios.recording import BACKWARD, CALL, END, GRAD, MAKE, ScriptEvent, ScriptRecording
from driftline.scenarios.requests import EventQuestion, PlayWay, Rejudged
from driftline.scenarios.runs import OTHER_FILL, Played, ScriptOptions, ScriptRuns
from driftline.scenarios.script import UserScript, require_recordable
from driftline.scenarios.target import AS_IT_STANDS

BATCH = 8  # events judged per additional run of the script
BATCHES = 4


@dataclass(frozen=True)
class ScriptResult:
    """The verdict on one script with one target. `differences` are those of the first event that differs."""

    script: UserScript
    target: str
    judgement: Judgement
    reason: str
    differences: tuple[Difference, ...] = ()
    calls: int = 0
    events: int = 0
    notes: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    backends: tuple[str, ...] = ()  # passed by the script to torch.compile: see `Recorded.backends`

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "verdict": str(self.judgement),
            "reason": self.reason,
            "backends": list(self.backends),
            "calls": self.calls,
            "events": self.events,
            "differences": [one.to_json() for one in self.differences],
            "notes": list(self.notes),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }


@dataclass(frozen=True)
class EagerRuns:
    """The three runs of a script without the compiler, which serve all targets: two with different contents of fresh
    memory, and one with rounding noise."""

    eager: Played
    again: Played
    rounded: Played


def play_eagerly(
    script: UserScript, pool: Pool, options: ScriptOptions, target: Target | None, announce: Announce
) -> EagerRuns:
    """Execute the script without the compiler. Raises `DriftlineError` if the script cannot be judged."""
    runs = ScriptRuns(script, target, pool, options)
    announce("without the compiler")
    eager = runs.play(PlayWay.EAGER)
    _require_calls(script, eager, options)
    return EagerRuns(eager, runs.play(PlayWay.EAGER, OTHER_FILL), runs.play(PlayWay.ROUNDED))


def judge_script(
    script: UserScript,
    eagerly: EagerRuns,
    pool: Pool,
    options: ScriptOptions,
    target: Target | None = None,
    announce: Announce = lambda text: None,
) -> ScriptResult:
    """Execute the script with the compiler, compare it with the eager runs, and return the result."""
    runs = ScriptRuns(script, target, pool, options)
    announce(f"compiled ({target or AS_IT_STANDS})")
    compiled = runs.play(PlayWay.COMPILED)
    return _Judge(script, str(target or AS_IT_STANDS), runs, eagerly, compiled, announce).result()


def _require_calls(script: UserScript, played: Played, options: ScriptOptions) -> None:
    """Raise `DriftlineError` if the script, without the compiler, does not end or calls nothing that was compiled."""
    if played.ending is Ending.TIMEOUT:
        raise DriftlineError(
            f"{script.name} does not end within {options.timeout:g} s, without the compiler; raise --timeout."
        )
    if played.ending is Ending.MEMORY:
        raise DriftlineError(f"{script.name} runs out of memory without the compiler ({played.detail}).")
    if played.ending is not Ending.DONE:
        raise DriftlineError(f"{script.name} kills its process without the compiler ({played.detail}). {played.log}")
    require_recordable(script, played.recorded)
    made = [event for event in played.recording.events if event.kind == MAKE]
    if played.recording.calls or any(event.facts["made"].text == "False" for event in made):
        return
    ended = played.recording.events[-1].raised if played.recording.events else None
    if ended:
        raise DriftlineError(f"{script.name} ends with {ended}, before it calls anything that a compiler made.")
    raise DriftlineError(
        f"{script.name} calls nothing that {ENTRY_POINTS} made. For a function that makes a program, name it:"
        f" {script.name}:NAME."
    )


@dataclass(frozen=True)
class _Candidate:
    """An event that seems to differ. `same_before`: all earlier events agree to the last bit."""

    number: int
    stable: Stable
    compared: ComparedEvent
    same_before: bool


class _Judge:
    """Judges the compiled run of a script on one target."""

    def __init__(
        self,
        script: UserScript,
        target: str,
        runs: ScriptRuns,
        eagerly: EagerRuns,
        compiled: Played,
        announce: Callable[[str], None],
    ) -> None:
        self._script = script
        self._target = target
        self._runs = runs
        self._compiled = compiled
        self._announce = announce
        self._eager = eagerly.eager
        self._comparison = RunComparison(
            eagerly.eager.recording, eagerly.again.recording, eagerly.rounded.recording, compiled.recording
        )
        self._notes: list[str] = []
        self._seconds = {"eager": eagerly.eager.seconds, "compiled": compiled.seconds}

    def result(self) -> ScriptResult:
        """Return the verdict."""
        candidates, same_bits, compared = self._candidates()
        found, stopped = self._confirmed(candidates)
        if not found and not stopped:
            found, stopped = self._ending(same_bits, compared)
        self._tell_limits()
        return self._verdict(found, stopped, compared)

    def _candidates(self) -> tuple[list[_Candidate], bool, int]:
        """Return the events that seem to differ, whether all compared events agree to the last bit, and how many were
        compared."""
        found: list[_Candidate] = []
        same_bits = True
        events = self._comparison.eager.events
        for number, event in enumerate(events):
            stable = self._comparison.stable(number)
            if stable is None:
                told = moment(event, events[:number])
                self._notes.append(f"{told}, the eager runs themselves go different ways: nothing is judged from there")
                return found, False, number
            if number >= len(self._comparison.compiled.events):
                return found, same_bits, number
            if event.kind == MAKE and _is_made(self._comparison.compiled.events[number]) and not _is_made(event):
                told = moment(event, events[:number])
                self._notes.append(f"{told}, only the run without the compiler failed: nothing is judged from there")
                return found, False, number
            compared = self._comparison.event(number, stable)
            if event.kind == END and self._eager.recorded.other_threads:
                compared = _whatever_the_order(compared)
            if not compared.agrees:
                found.append(_Candidate(number, stable, compared, same_bits))
            same_bits &= compared.same_bits
            if any(one.change in _ENDS for one in compared.found):
                return found, same_bits, number + 1
        return found, same_bits, len(events)

    def _confirmed(self, candidates: list[_Candidate]) -> tuple[tuple[Difference, ...], str]:
        """Return the differences of the first event confirmed as wrong from the compiled run's own state, and the
        reason why judging stops, if it does."""
        for batch in range(0, min(len(candidates), BATCH * BATCHES), BATCH):
            some = candidates[batch : batch + BATCH]
            self._announce(f"judging {plural(len(some), 'event')} ({self._target})")
            answers = self._runs.ask(self._compiled.recording, tuple(self._question(one) for one in some))
            for one in some:
                found, stopped = self._weigh(one, answers.get(one.number))
                if found or stopped:
                    return found, stopped
        if len(candidates) > BATCH * BATCHES:
            told = self._comparison.eager.events
            return (), f"{moment(told[candidates[BATCH * BATCHES].number], told)}, the numbers were not judged any more"
        return (), ""

    def _question(self, one: _Candidate) -> EventQuestion:
        return EventQuestion(one.number, _start(self._comparison.compiled.events, one.number), one.compared.values)

    def _weigh(
        self, one: _Candidate, answer: tuple[Rejudged, ScriptRecording] | None
    ) -> tuple[tuple[Difference, ...], str]:
        """Return the confirmed differences of an event, and the reason why judging stops here, if it does."""
        event = self._comparison.eager.events[one.number]
        when = moment(event, self._comparison.eager.events[: one.number])
        seen = next((known for known in answer[1].events if known.number == one.number), None) if answer else None
        if answer is None or seen is None:
            certain = one.compared.found if one.same_before else ()
            return certain, "" if certain else f"{when}, the runs differ, and the event could not be seen on its own"
        if event.kind == END and not one.same_before:
            exact: tuple[Difference, ...] = ()  # the script may depend on values that rounding decides
        else:
            exact = self._persisting(one, seen, answer[1])
        wrong = self._wrong_values(one, answer[0], when, event)
        if exact or wrong:
            return (*exact, *wrong), ""
        if one.compared.found and event.kind != END:
            return (), f"{when}, the runs have gone different ways since earlier rounding"
        return (), ""

    def _persisting(self, one: _Candidate, seen: ScriptEvent, recording: ScriptRecording) -> tuple[Difference, ...]:
        """Return the exact differences that also occur from the compiled run's own state; all of them if no rounding
        came before."""
        if one.same_before:
            return one.compared.found
        got = self._comparison.compiled.events[one.number]
        again = compare_event(recording, seen, self._comparison.compiled, got, one.stable, self._comparison.rounded)
        persisting = {other.id for other in again.found}
        return tuple(other for other in one.compared.found if other.id in persisting)

    def _wrong_values(self, one: _Candidate, answer: Rejudged, when: str, event: ScriptEvent) -> list[Difference]:
        found = [
            Difference(
                Change.VALUE, one.number, event.kind, when, wrong.path, evidence=wrong.evidence, reason=wrong.reason
            )
            for wrong in answer.wrong
            if wrong.evidence.certain or wrong.evidence.z is None or not event.folded
        ]
        known = {wrong.path for wrong in answer.wrong}
        blind = [path for path in answer.unjudged if path not in known]
        if one.same_before and not found:  # effects of an earlier call are visible only against eager
            blind += [path for path in one.compared.values if path not in blind]
        for path in () if event.folded else blind:
            if difference := self._by_movement(one, path, when, event):
                found.append(difference)
        return found

    def _by_movement(self, one: _Candidate, path: str, when: str, event: ScriptEvent) -> Difference | None:
        """Judge a tensor without a tape, by how far rounding noise moves it in the eager run. Returns `None` if it is
        right."""
        arrays = [
            _content(recording, one.number, path)
            for recording in (self._comparison.eager, self._comparison.compiled, self._comparison.rounded)
        ]
        native, got, moved = arrays
        if native is None or got is None or native.shape != got.shape:
            return None
        spread = None
        if moved is not None and moved.shape == native.shape and native.dtype.kind not in "biu":
            with np.errstate(all="ignore"):
                spread = np.abs(moved.astype(np.complex128) - native.astype(np.complex128))
        compared = compare_values(got, Expected(native, None, spread))
        if compared.kind is None:
            return None
        first = compared.evidence.first
        told = f"{compared.evidence.wrong} of {native.size} elements differ"
        told += f", first {first.got}, eager has {first.expected}" if first else ""
        return Difference(Change.VALUE, one.number, event.kind, when, path, evidence=compared.evidence, reason=told)

    def _ending(self, same_bits: bool, compared: int) -> tuple[tuple[Difference, ...], str]:
        """Return the differences in printed text and in how the process ended, or why the end was not judged."""
        events = self._comparison.eager.events
        if self._compiled.ending is Ending.TIMEOUT:
            return (), "the script did not end in time with the compiler"
        if self._compiled.ending is Ending.MEMORY:
            return (), f"the script ran out of memory with the compiler ({self._compiled.detail})"
        if self._compiled.ending is not Ending.DONE and compared < len(events):
            event = events[compared]
            told = moment(event, events[:compared]).replace("after", "in", 1)
            return (Difference(Change.CRASH, compared, event.kind, told, got=self._compiled.detail),), ""
        if not same_bits or self._script.looks_inside or self._eager.recorded.asks_compiler:
            return (), ""
        eager, again = self._comparison.eager.printed, self._comparison.again.printed
        if lines := printed_difference(eager, again, self._comparison.compiled.printed):
            when = moment(events[-1], events)
            return (Difference(Change.PRINTED, len(events) - 1, END, when, "", *lines),), ""
        return (), ""

    def _tell_limits(self) -> None:
        recorded = self._eager.recorded
        kept = len(recorded.printed.encode())
        if recorded.printed_bytes > kept:
            self._notes.append(
                f"the script prints {recorded.printed_bytes >> 10:,} KiB; the first {kept >> 10} KiB were compared"
            )
        if recorded.other_threads:
            self._notes.append(f"{plural(recorded.other_threads, 'call')} in other threads: not compared")
        if recorded.unrecorded:
            self._notes.append(f"{plural(recorded.unrecorded, 'event')} more than are recorded: not compared")

    def _verdict(self, found: tuple[Difference, ...], stopped: str, compared: int) -> ScriptResult:
        judgement, reason = Judgement.PASS, "the compiled script does what eager does"
        refused = _refusal(self._comparison.compiled, found[0].event) if found else ""
        if found and refused:
            judgement, reason = Judgement.REJECTED, refused
            found = ()
        elif found and self._script.asks:
            judgement = Judgement.INCONCLUSIVE
            reason = f"the script asks whether it is being compiled, and {found[0].sentence}"
        elif found:
            judgement, reason = Judgement.FAIL, found[0].sentence
        elif stopped:
            judgement, reason = Judgement.INCONCLUSIVE, stopped
        elif not compared:
            judgement, reason = Judgement.INCONCLUSIVE, "no event could be compared"
        return ScriptResult(
            self._script,
            self._target,
            judgement,
            reason,
            found,
            self._comparison.eager.calls,
            compared,
            tuple(self._notes),
            self._seconds,
            self._eager.recorded.backends,
        )


_ENDS = (Change.EVENTS, Change.ERROR, Change.MISSING_ERROR, Change.OTHER_ERROR)


def _is_made(event: ScriptEvent) -> bool:
    """True if an entry point such as torch.export made its object."""
    return event.raised is None and "made" in event.facts and event.facts["made"].text == "True"


def _whatever_the_order(compared: ComparedEvent) -> ComparedEvent:
    """Keep only how the script ended: its variables and prints depend on the order in which its threads ran."""
    return ComparedEvent(tuple(one for one in compared.found if one.change in _ENDS), same_bits=False)


def _start(events: tuple[ScriptEvent, ...], number: int) -> int:
    """Return the event from which a child process runs without the compiler, so that event `number` is seen on its own.

    A backward pass starts with the calls whose gradients it computes, and the end of a script with the first event.
    """
    kind = events[number].kind
    if kind in (CALL, MAKE):
        return number
    if kind == END:
        return 0
    earlier = [event.number for event in events[:number] if event.kind in (BACKWARD, GRAD)]
    begin = earlier[-1] + 1 if earlier else 0
    calls = [event.number for event in events[begin:number] if event.kind == CALL]
    return calls[0] if calls else 0


def _content(recording: ScriptRecording, number: int, path: str) -> Array | None:
    if number >= len(recording.events):
        return None
    fact = recording.events[number].facts.get(path)
    return recording.content(fact.tensor) if fact and fact.tensor and fact.tensor.readable else None


def _refusal(compiled: ScriptRecording, number: int) -> str:
    """Return the compiler's message at an event where it declines the script, or an empty string."""
    told = compiled.events[number].raised if number < len(compiled.events) else None
    return str(told) if told and told.declined else ""
