"""The table in which families register themselves under the names of their operators."""

from __future__ import annotations

from collections.abc import Callable

from driftline.patterns.inductor.invert.call import PatternCall

Family = Callable[[PatternCall], None]
FAMILIES: dict[str, Family] = {}


def family(*names: str) -> Callable[[Family], Family]:
    """Decorator that registers a family for the named operators."""

    def enter(function: Family) -> Family:
        FAMILIES.update(dict.fromkeys(names, function))
        return function

    return enter
