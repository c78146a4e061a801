"""Search for a shorter script: keep the best so far, the answers, and the budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from driftline.diagnose.reduce.scripts.size import ScriptSize, code_lines
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer
from driftline.execute.ahead import ahead
from driftline.execute.pool import PoolExpired

AT_A_TIME = 2  # candidates in work


@dataclass(frozen=True)
class ScriptStep:
    """A step of the search in which the best text became smaller."""

    seconds: float
    questions: int
    what: str
    lines: int

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 2),
            "questions": self.questions,
            "what": self.what,
            "lines": self.lines,
        }


class ScriptSearch:
    """Keeps the smallest text that fails in the same way. `ask` answers a quick question about a text; `confirm` runs
    the judge. After a best text was not confirmed, every further one is confirmed at once.
    """

    def __init__(
        self,
        start: str,
        ask: Callable[[str], CandidateAnswer],
        confirm: Callable[[str], bool],
        deadline: float,
        listener: Callable[[ScriptStep], None] = lambda step: None,
    ) -> None:
        self._ask = ask
        self._confirm = confirm
        self._deadline = deadline
        self._listener = listener
        self._began = time.monotonic()
        self._careful = False
        self._sizes: dict[str, ScriptSize] = {}
        self.known: dict[str, CandidateAnswer] = {}
        self.best = start
        self.confirmed = start
        self.questions = 0
        self.steps: list[ScriptStep] = []

    def first(self, candidates: Iterable[str], what: str) -> bool:
        """Accept the first candidate that is smaller than the best and fails in the same way. True if there is one."""
        asked = ahead(self._asked, self._new(candidates), AT_A_TIME)
        try:
            for text, answer in asked:
                if answer is CandidateAnswer.SAME and self._accepts(text):
                    self.best = text
                    step = ScriptStep(time.monotonic() - self._began, self.questions, what, code_lines(text))
                    self.steps.append(step)
                    self._listener(step)
                    return True
        finally:
            asked.close()  # type: ignore[attr-defined]
        return False

    def settle(self) -> None:
        """Confirm the best text, or go back to the last confirmed one."""
        if self.best == self.confirmed:
            return
        if self._confirm(self.best):
            self.confirmed = self.best
            return
        self.known[self.best] = CandidateAnswer.OTHER
        self.best = self.confirmed
        self._careful = True

    def _accepts(self, text: str) -> bool:
        if not self._careful:
            return True
        if self._confirm(text):
            self.confirmed = text
            return True
        self.known[text] = CandidateAnswer.OTHER
        return False

    def _new(self, candidates: Iterable[str]) -> Iterator[str]:
        best = self._size(self.best)
        offered: set[str] = set()
        for text in candidates:
            if time.monotonic() > self._deadline:
                raise BudgetEnded
            if text in offered or self.known.get(text, CandidateAnswer.SAME) is not CandidateAnswer.SAME:
                continue
            offered.add(text)
            if self._size(text) < best:
                yield text

    def _asked(self, text: str) -> tuple[str, CandidateAnswer]:
        if text in self.known:
            return text, self.known[text]
        if time.monotonic() > self._deadline:
            raise BudgetEnded
        try:
            answer = self._ask(text)
        except PoolExpired as ended:
            raise BudgetEnded from ended
        self.questions += 1
        self.known[text] = answer
        return text, answer

    def _size(self, text: str) -> ScriptSize:
        if text not in self._sizes:
            self._sizes[text] = ScriptSize.of(text)
        return self._sizes[text]
