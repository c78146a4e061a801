"""The ladder: simpler forms of the same compiler, the simplest first. The first form that fails tells which part of the
compiler is to blame, and it is quicker to test than the whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from driftline.backends import BACKENDS
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.diagnose.reduce.search import CandidateAnswer
from driftline.diagnose.trials import Trials


@dataclass(frozen=True)
class Rung:
    """The answer of one form of the compiler on the case."""

    target: Target
    answer: CandidateAnswer
    reason: str
    seconds: float

    @property
    def wrong(self) -> bool:
        return self.answer is CandidateAnswer.SAME

    def to_json(self) -> dict[str, Any]:
        return {
            "target": str(self.target),
            "answer": str(self.answer),
            "reason": self.reason,
            "seconds": round(self.seconds, 2),
        }


def rungs(target: Target) -> Iterator[Target]:
    """Yield the targets to test, ending with the target itself. Targets that are not installed are left out."""
    for name in BACKENDS.get(target.backend).ladder():
        option, equals, value = name.partition("=")
        if equals and option not in dict(target.options):
            yield Target(target.backend, target.version, (*target.options, (option, value)))
        elif not equals and _installed(name):
            yield Target(name)
    yield target


def _installed(name: str) -> bool:
    try:
        return BACKENDS.get(name).installed().available
    except DriftlineError:
        return False


def climb(trials: Trials, target: Target, deadline: float) -> list[Rung]:
    """Test the rungs from the simplest to the first that fails, and return their answers."""
    climbed: list[Rung] = []
    for rung in rungs(target):
        began = time.monotonic()
        if began > deadline and rung != target:
            continue
        reply = trials.ask(rung)
        climbed.append(Rung(rung, reply.answer, reply.reason, time.monotonic() - began))
        if climbed[-1].wrong:
            break
    return climbed
