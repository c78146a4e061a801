"""The smallest set of knobs that makes a failing case pass.

It rests on one assumption, that switching off more does not bring a failure back, and says nothing that was not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from driftline.backends.knobs import Knob
from driftline.diagnose.reduce.nodes import needed
from driftline.diagnose.reduce.search import CandidateAnswer

Ask = Callable[[Sequence[Knob]], CandidateAnswer]  # what becomes of the case with these switched off


def smallest_cure(knobs: Sequence[Knob], ask: Ask) -> list[Knob]:
    """Nothing, when they do not cure it. About log n questions for each knob that is needed."""
    curing = _curing(list(knobs), ask) if knobs else []

    def left(chosen: Collection[Knob]) -> Collection[Knob] | None:
        return chosen if ask([knob for knob in curing if knob in chosen]) is CandidateAnswer.PASS else None

    return _without_spare(needed(curing, left), ask) if curing else []


def _curing(knobs: list[Knob], ask: Ask) -> list[Knob]:
    """All of them, where that works. A compiler that breaks when too much is switched off is asked for halves."""
    answer = ask(knobs)
    if answer is CandidateAnswer.PASS:
        return knobs
    if answer is CandidateAnswer.SAME or len(knobs) < 2:
        return []
    middle = len(knobs) // 2
    return _curing(knobs[:middle], ask) or _curing(knobs[middle:], ask)


def _without_spare(cure: Sequence[Knob], ask: Ask) -> list[Knob]:
    """Every knob of the result is needed: without any single one it does not pass."""
    kept = list(cure)
    for knob in list(kept):
        rest = [other for other in kept if other != knob]
        if rest and ask(rest) is CandidateAnswer.PASS:
            kept = rest
    return kept
