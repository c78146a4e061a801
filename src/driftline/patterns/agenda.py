"""The order of work in an audit: suspects of new families first, then rules, then suspects like earlier ones."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from driftline.core.rule import Rule
from driftline.patterns.inductor.requests import RuleSuspect

Subject = TypeVar("Subject")


def growing(items: Sequence[Subject], most: int) -> Iterator[Sequence[Subject]]:
    """Yield batches of 1, 2, 4, ... up to `most` items, so that a run that is killed early has stored some results."""
    size, at = 1, 0
    while at < len(items):
        yield items[at : at + size]
        size, at = min(2 * size, most), at + size


def spread(rules: Sequence[Rule]) -> list[str]:
    """Return rule IDs ordered so that the first rule of each optimisation comes first, then the second ones, and so on.
    Variants of one function (for training, for half precision) count as one, since they share their mistakes."""
    seen: dict[str, int] = {}
    ranked: list[tuple[int, int, str]] = []
    for rule in rules:
        name = f"{rule.group} {rule.where or rule.id}"
        seen[name] = seen.get(name, 0) + 1
        ranked.append((seen[name], len(ranked), rule.id))
    return [name for _, _, name in sorted(ranked)]


@dataclass(order=True)
class AgendaItem:
    priority: tuple[int, int]
    body: str | RuleSuspect = field(compare=False)  # a rule to perturb, or a suspect to check


class Agenda:
    """A queue of work ordered by priority. 0: suspects of new families; 1: rules; 2: suspects like earlier ones, and
    programs that only a real compilation can judge; 3: programs that ordinary code cannot write."""

    def __init__(self, rules: Sequence[str]) -> None:
        self._heap = [AgendaItem((1, at), rule) for at, rule in enumerate(rules)]
        self._number = len(self._heap)
        self._families: set[tuple[str, str, str]] = set()
        self._twins: set[str] = set()
        self._open = 0
        self._lock = threading.Condition()

    def add_suspect(self, suspect: RuleSuspect, rule: Rule) -> None:
        """Queue a suspect of `rule`, unless one with the same name was queued before."""
        with self._lock:
            if suspect.name in self._twins:
                return
            self._twins.add(suspect.name)
            family = (rule.where.partition(":")[0], suspect.mutation, suspect.kind)
            urgency = 0 if family not in self._families else 2
            if suspect.kind == "unjudged":  # nothing speaks against it yet
                urgency = 2
            if not suspect.reachable:
                urgency = 3
            self._families.add(family)
            self._number += 1
            heapq.heappush(self._heap, AgendaItem((urgency, self._number), suspect))
            self._lock.notify()

    def next(self) -> AgendaItem | None:
        """Return the most urgent item, waiting for it if needed; None if there is none and no more can come."""
        with self._lock:
            self._lock.wait_for(lambda: self._heap or not self._open)
            if not self._heap:
                return None
            self._open += 1
            return heapq.heappop(self._heap)

    def finished(self) -> None:
        """Say that an item from `next` is done."""
        with self._lock:
            self._open -= 1
            self._lock.notify_all()
