"""Search for a smaller candidate that still fails, with a memo of answers, a budget, the best so far, and a log.

The search does not depend on graphs or text. A *candidate* has a key, a key of its program without the inputs, a size,
and lines; `ask` tests a sequence of candidates.
"""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from driftline.core.text import normalise_message
from driftline.diagnose.reduce.order import ProgramSize
from driftline.execute.pool import PoolExpired

MOST_REMEMBERED = 64  # passing candidates, the last ones
OF_ONE_PROGRAM = 8  # of them, so that many inputs of one do not push out all others
LOOKED_AT = 3  # of the nearest ones, to find one that passes by itself too
LIKE = 0.6  # the least likeness that explains something
MOST_OTHERS = 5  # other failures that are kept
ROOM = 1 << 18  # elements of all inputs of one question


class CandidateAnswer(StrEnum):
    """The outcome of testing a candidate."""

    SAME = "same"  # it fails as the original does
    PASS = "pass"
    OTHER = "other"  # it fails, but in another way
    NEITHER = "neither"  # not a program, refused, or not to be judged


@dataclass(frozen=True)
class Reply:
    """An answer with its reason. `signature` distinguishes failures that differ from the original."""

    answer: CandidateAnswer
    reason: str = ""
    signature: str = ""
    scouted: bool = False  # it was run together with others, which may change what happens
    ran: bool = True  # False: the candidate is not a valid program, so the target never ran it
    output: str = ""  # the wrong output, if known
    lasting: bool = True  # False: an inconclusive measurement, which may be repeated
    questions: int = 1  # how often the target was given a program; several inputs of one are a single question

    def is_like(self, other: Reply) -> bool:
        """True if the other reply has the same answer and the same cause."""
        return self._cause == other._cause

    @property
    def _cause(self) -> tuple[CandidateAnswer, str]:
        return self.answer, self.signature or normalise_message(self.reason)


class Candidate(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def size(self) -> ProgramSize: ...
    @property
    def lines(self) -> list[str]: ...


C = TypeVar("C", bound=Candidate)


class BudgetEnded(Exception):
    """No time is left. The results so far are in the search."""


@dataclass(frozen=True)
class ReductionStep:
    """A step of the search in which the best became smaller."""

    seconds: float
    queries: int
    what: str
    size: ProgramSize

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 2),
            "queries": self.queries,
            "what": self.what,
            "size": self.size.to_json(),
        }


class _Waiting(Generic[C]):
    """Yields candidates in their order, in groups: consecutive candidates of one program stay together."""

    def __init__(self, candidates: Iterable[C]) -> None:
        self._candidates = iter(candidates)
        self._ahead = next(self._candidates, None)

    def next(self, programs: int, inputs: int) -> list[C]:
        """Return the next candidates of at most `programs` programs, with at most `inputs` inputs each."""
        group: list[C] = []
        left = 0  # how many more inputs of the last program fit
        while self._ahead is not None:
            if not left or self._ahead.program != group[-1].program:
                if not programs:
                    break
                programs -= 1
                left = min(inputs, max(1, ROOM // max(1, self._ahead.size.elements)))
            left -= 1
            group.append(self._ahead)
            self._ahead = next(self._candidates, None)
        return group


class Search(Generic[C]):
    """Searches for a smaller candidate.

    `ask` tests candidates that are not in the memo: of at most `batch` programs at a time, and for each at most
    `inputs` versions that differ in their numbers only, which count as one question. Batches grow from `least`
    programs, which is more than one if many programs cost hardly more than one.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[C]], Sequence[Reply]],
        start: C,
        *,
        memo: MutableMapping[str, Reply] | None = None,
        deadline: float = float("inf"),
        batch: int = 1,
        least: int = 1,
        inputs: int = 1,
        listener: Callable[[ReductionStep], None] = lambda step: None,
    ) -> None:
        self._ask = ask
        self._memo: MutableMapping[str, Reply] = {} if memo is None else memo
        self._deadline = deadline
        self._batch = batch
        self._least = least
        self._inputs = inputs
        self._listener = listener
        self._began = time.monotonic()
        self.best = start
        self.accepted: list[C] = [start]
        self.steps: list[ReductionStep] = []
        self.queries = 0  # questions that the target answered
        self.remembered = 0  # candidates whose answer was in the memo
        self.others: dict[str, C] = {}
        self.cut: set[str] = set()  # keys of other failures that only have fewer operators than the best
        self._passing: dict[str, C] = {}
        self._tell("as it came")

    def first(self, candidates: Iterable[C], what: str) -> bool:
        """Accept the first candidate that is smaller than the best and fails in the same way; True if there is one.
        Later candidates may be run beside it.
        """
        size = self._least
        waiting = _Waiting(filter(self._is_worth_asking, candidates))
        while group := waiting.next(size, self._inputs):
            for candidate, reply in zip(group, self.replies(group), strict=True):
                if reply.answer is CandidateAnswer.SAME and self.fails(candidate):
                    self.accept(candidate, what)
                    return True
            size = min(self._batch, size * 2)
        return False

    def passes(self, candidate: C) -> bool:
        """True if a candidate is known to pass."""
        known = self._memo.get(candidate.key)
        return known is not None and known.answer is CandidateAnswer.PASS

    def _is_worth_asking(self, candidate: C) -> bool:
        """True if a candidate is smaller than the best and not known to be useless."""
        if candidate.size >= self.best.size:
            return False
        known = self._memo.get(candidate.key)
        if known is None or known.answer is CandidateAnswer.SAME:
            return True
        self.remembered += 1
        self._note(candidate, known)
        return False

    def fails(self, candidate: C) -> bool:
        """True if a candidate fails in the same way when it is run by itself."""
        known = self._memo.get(candidate.key)
        if known and known.scouted:
            self._memo[candidate.key] = self._asked([candidate])[0]
        return self.replies([candidate])[0].answer is CandidateAnswer.SAME

    def begins(self) -> bool:
        """True if the start fails in the same way. It is tested a second time before the answer is no, even if that
        answer was in the memo, since the worker may have been killed by something else.
        """
        if self.fails(self.best):
            return True
        self._memo[self.best.key] = self._asked([self.best])[0]
        return self.fails(self.best)

    def accept(self, candidate: C, what: str) -> None:
        self.best = candidate
        self.accepted.append(candidate)
        self._tell(what)

    def replies(self, candidates: Sequence[C]) -> list[Reply]:
        """Return the replies to candidates, from the memo where possible."""
        new = {c.key: c for c in candidates if c.key not in self._memo}
        self.remembered += len(candidates) - len(new)
        if new:
            for candidate, reply in zip(new.values(), self._asked(list(new.values())), strict=True):
                self._memo[candidate.key] = reply
        replies = [self._memo[candidate.key] for candidate in candidates]
        for candidate, reply in zip(candidates, replies, strict=True):
            self._note(candidate, reply)
        return replies

    def _asked(self, candidates: Sequence[C]) -> Sequence[Reply]:
        if self._over():
            raise BudgetEnded
        try:
            replies = self._ask(candidates)
        except PoolExpired as ended:
            raise BudgetEnded from ended
        self.queries += sum(reply.questions for reply in replies if reply.ran)
        return replies

    def _over(self) -> bool:
        return time.monotonic() > self._deadline

    def _note(self, candidate: C, reply: Reply) -> None:
        if reply.answer is CandidateAnswer.PASS:
            self._remember(candidate)
        elif reply.answer is CandidateAnswer.OTHER and len(self.others) < MOST_OTHERS:
            cut = candidate.size.operators < self.best.size.operators
            known = self.others.get(reply.signature)
            if known is None or (candidate.size < known.size and (cut or known.key not in self.cut)):
                self.others[reply.signature] = candidate
                self.cut |= {candidate.key} if cut else set()

    def _remember(self, candidate: C) -> None:
        self._passing.pop(candidate.key, None)
        alike = [key for key, other in self._passing.items() if other.program == candidate.program]
        if len(alike) >= OF_ONE_PROGRAM:
            del self._passing[alike[0]]
        elif len(self._passing) >= MOST_REMEMBERED:
            del self._passing[next(iter(self._passing))]
        self._passing[candidate.key] = candidate

    def nearest_passing(self) -> C | None:
        """Return the recently passed candidate that is most similar to the best and passes by itself; None if none is
        similar enough.
        """

        def likeness(candidate: C) -> float:
            return difflib.SequenceMatcher(None, "\n".join(candidate.lines), target, autojunk=False).ratio()

        target = "\n".join(self.best.lines)
        most = 2 * self.best.size.elements + 8  # a large one explains nothing, however alike
        small = sorted((c for c in self._passing.values() if c.size.elements <= most), key=likeness, reverse=True)
        for candidate in small[:LOOKED_AT]:
            with contextlib.suppress(BudgetEnded):
                if likeness(candidate) >= LIKE and not self.fails(candidate) and self.passes(candidate):
                    return candidate
        return None

    def reason(self, candidate: C) -> str:
        return self._memo[candidate.key].reason

    def _tell(self, what: str) -> None:
        step = ReductionStep(time.monotonic() - self._began, self.queries, what, self.best.size)
        self.steps.append(step)
        self._listener(step)
