"""Define what it means that a script still fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from driftline.scenarios.difference import SHARING, Change, Difference

_ERRORS = (Change.ERROR, Change.MISSING_ERROR, Change.OTHER_ERROR)
_STATE = ("self", "closure", "global", "class")  # where state lies is a matter of how a script is written
_WORD = re.compile(r"[A-Za-z]{3,}")
WORDS = 3  # of the message of an exception


@dataclass(frozen=True)
class DifferenceSort:
    """A difference without the details that change when a script gets shorter: numbers, names, and the number of the
    event.
    """

    change: Change
    place: str  # output, input, state, gradient, ...
    error: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.change, self.place and f"of {self.place}", self.error) if part)


def sort_of(one: Difference) -> DifferenceSort:
    """Return the sort of a difference."""
    if one.change in _ERRORS:
        name, _, message = (one.expected if one.change is Change.MISSING_ERROR else one.got).partition(":")
        return DifferenceSort(one.change, "", " ".join((name, *_WORD.findall(message)[:WORDS])))
    if one.change is Change.CRASH:
        return DifferenceSort(one.change, "")
    return DifferenceSort(one.change, place_of(one.path))


def place_of(path: str) -> str:
    """Return which part of the state a path belongs to: output, input, gradient, and so on."""
    if SHARING in path:
        return " and ".join(sorted(map(place_of, path.split(SHARING))))
    if ".grad" in path:
        return "gradient"
    first = re.split(r"[ .\[]", path, maxsplit=1)[0]
    if first in ("random", "mode"):
        return path
    return "state" if first in _STATE else first


def sorts_of(differences: Iterable[Difference]) -> frozenset[DifferenceSort]:
    """Return the sorts of the differences of one event. A script fails in the same way if one of these sorts occurs
    again.
    """
    return frozenset(map(sort_of, differences))
