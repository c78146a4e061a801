"""Find the smallest set of knobs that makes a failing case pass.

The search assumes that switching off more knobs never brings a failure back. Every set that it reports was tested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from driftline.backends.knobs import Knob
from driftline.diagnose.reduce.nodes import needed
from driftline.diagnose.reduce.search import CandidateAnswer

Ask = Callable[[Sequence[Knob]], CandidateAnswer]  # the answer of the case with these knobs switched off


def smallest_cure(knobs: Sequence[Knob], ask: Ask) -> list[Knob]:
    """Return the smallest set of knobs that makes the case pass, or an empty list if all knobs together do not. The
    search takes about log n questions for each needed knob.
    """
    curing = _curing(list(knobs), ask) if knobs else []

    def left(chosen: Collection[Knob]) -> Collection[Knob] | None:
        return chosen if ask([knob for knob in curing if knob in chosen]) is CandidateAnswer.PASS else None

    return _without_spare(needed(curing, left), ask) if curing else []


def _curing(knobs: list[Knob], ask: Ask) -> list[Knob]:
    """Return all knobs if they cure the case together. If the compiler breaks because too much is switched off, try
    halves.
    """
    answer = ask(knobs)
    if answer is CandidateAnswer.PASS:
        return knobs
    if answer is CandidateAnswer.SAME or len(knobs) < 2:
        return []
    middle = len(knobs) // 2
    return _curing(knobs[:middle], ask) or _curing(knobs[middle:], ask)


def _without_spare(cure: Sequence[Knob], ask: Ask) -> list[Knob]:
    """Drop knobs that are not needed: without any single knob of the result the case does not pass."""
    kept = list(cure)
    for knob in list(kept):
        rest = [other for other in kept if other != knob]
        if rest and ask(rest) is CandidateAnswer.PASS:
            kept = rest
    return kept
