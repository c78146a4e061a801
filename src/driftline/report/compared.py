"""Describe what a check compared in addition to the outputs of the first call."""

from __future__ import annotations

from driftline.checking.aspects import Aspect
from driftline.checking.checker import CheckOutcome

_WORDS = {
    Aspect.OTHER_VALUES: "a second call with other values",
    Aspect.FIRST_VALUES: "a call with the first values again",
    Aspect.OTHER_SIZE: "a call with another size",
    Aspect.GRADIENT: "the gradient",
    Aspect.GRADIENT_OF_OTHER_VALUES: "its gradient with other values",
}


def compared_words(outcome: CheckOutcome) -> str:
    """Return a sentence that names each compared aspect and its targets; empty if only the outputs were compared."""
    told: dict[tuple[str, ...], list[str]] = {}
    for aspect, words in _WORDS.items():
        if targets := tuple(str(row.target) for row in outcome.results if aspect in row.compared):
            size = f", {outcome.other_size}" if aspect is Aspect.OTHER_SIZE and outcome.other_size else ""
            told.setdefault(targets, []).append(words + size)
    parts = [f"{'; '.join(words)} ({', '.join(targets)})" for targets, words in told.items()]
    return f"Compared beside the outputs: {'; '.join(parts)}." if parts else ""
