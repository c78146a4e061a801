"""What one lane has learnt about asking a model for programs: which kinds of request and which examples fire rules.

Everything is computed from the records of the lane's own turns, so it can be rebuilt from the store and does not depend
on the clock or on other lanes.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from driftline.core.rule import Rule
from driftline.generate.llm import CHANGE, MODES
from driftline.llm.allowance import Allowance
from driftline.llm.answers import digest_of
from driftline.llm.chat import NO_ANSWER
from driftline.store.tries import DESCRIBE, RAN, SPENT, ModelTry

MOST_FAILURES = 20  # requests without an answer, in a row
FLOOR = 0.1  # the least share of every mode, however rarely it succeeds
SHOWN = 3  # examples in a request for a new program
_KEPT = 40  # examples of one rule


@dataclass
class FiringTally:
    """Counts how often a mode or an example led to a program that fired its rule."""

    fired: int = 0
    missed: int = 0

    def count(self, fired: bool) -> None:
        self.fired += fired
        self.missed += not fired

    def drawn(self, rng: random.Random) -> float:
        """Return a random success probability, drawn from a Beta distribution that starts as Beta(1, 1)."""
        return rng.betavariate(1 + self.fired, 1 + self.missed)


@dataclass
class ModelLane:
    """The state of one lane. `rules`: the rules that the lane may aim at, by id."""

    rules: Mapping[str, Rule]
    allowance: Allowance
    modes: Sequence[str] = MODES
    tokens: int = 0
    cost: float = 0.0
    without_answer: int = 0  # in a row
    described: set[str] = field(default_factory=set)  # rules whose description is counted
    seen: set[str] = field(default_factory=set)  # digests of programs
    ran: set[str] = field(default_factory=set)  # digests of the programs that ran
    spent: bool = False
    _by_mode: dict[str, FiringTally] = field(default_factory=lambda: defaultdict(FiringTally))
    _by_example: dict[tuple[str, str], FiringTally] = field(
        default_factory=lambda: defaultdict(FiringTally)
    )  # rule, digest
    _first: dict[str, str] = field(default_factory=dict)  # rule -> the program that an audit finds for it
    _fired: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # rule -> digest -> program

    @property
    def stopped(self) -> str:
        """Return why the lane sends no more requests, or an empty string while it does."""
        if self.without_answer >= MOST_FAILURES:
            return f"{MOST_FAILURES} requests in a row had no answer"
        if self.spent and not self.allowance.left(self.tokens, self.cost):  # a resumed hunt may have been given more
            return f"its allowance of {self.allowance.words()} is spent"
        return ""

    # -- choosing ----------------------------------------------------------------------------------------------------

    def add_first(self, rule: str, program: str) -> None:
        """Register the program that an audit would find for the rule, as its first example."""
        if program:
            self._first[rule] = program

    def _texts(self, rule: str) -> dict[str, str]:
        """Return all examples of a rule by digest, always in the same order."""
        first = self._first.get(rule)
        return {**({digest_of(first): first} if first else {}), **self._fired[rule]}

    def mode(self, rule: str, rng: random.Random) -> str:
        """Choose a mode by Thompson sampling; every mode keeps a least share."""
        able = [mode for mode in self.modes if mode != CHANGE or self._texts(rule)] or [
            mode for mode in MODES if mode != CHANGE
        ]
        if rng.random() < FLOOR * len(able):
            return rng.choice(able)
        return max(able, key=lambda mode: self._by_mode[mode].drawn(rng))

    def examples(self, rule: str, count: int, rng: random.Random) -> dict[str, str]:
        """Return the `count` most promising examples of a rule, by digest."""
        texts = self._texts(rule)
        drawn = {digest: self._by_example[(rule, digest)].drawn(rng) for digest in texts}
        best = sorted(drawn, key=lambda digest: -drawn[digest])[:count]
        return {digest: texts[digest] for digest in best}

    # -- learning ----------------------------------------------------------------------------------------------------

    def absorb(self, tries: Iterable[ModelTry]) -> None:
        """Add the records of one turn, from the hunt or from the store."""
        for one in tries:
            self.tokens += one.tokens
            self.cost += one.cost
            self.spent |= one.outcome == SPENT
            if one.outcome != SPENT:
                self.without_answer = self.without_answer + 1 if one.outcome == NO_ANSWER else 0
            if one.mode == DESCRIBE:
                self.described.add(one.rule)
            elif one.outcome not in (SPENT, NO_ANSWER):
                self._learn(one)

    def _learn(self, one: ModelTry) -> None:
        new = one.fired and not one.copy  # else an example that is only repeated would be shown more often
        self._by_mode[one.mode].count(new)
        for digest in one.examples:
            self._by_example[(one.rule, digest)].count(new)
        if one.digest:
            self.seen.add(one.digest)
            if one.outcome == RAN:
                self.ran.add(one.digest)
        if new and one.text and len(self._fired[one.rule]) < _KEPT:
            self._fired[one.rule].setdefault(digest_of(one.text), one.text)
