"""The constraint on operators."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from driftline.hardware.constraint import Broken, Constraint, patterns, register_constraint, setting
from driftline.hardware.facts import NodeFacts

_NAMED = 8


@register_constraint("operators")
@dataclass(frozen=True)
class OperatorConstraint(Constraint):
    """Forbids denied operators and, if `allowed` is set, all others than the allowed ones. Names may contain `*`."""

    denied: tuple[str, ...] = setting(patterns, "operators that the device does not have", default=())
    allowed: tuple[str, ...] = setting(patterns, "the only operators that the device has", default=())

    def broken_by(self, node: NodeFacts) -> Iterator[Broken]:
        if not node.is_call:
            return
        if node.matches(self.denied):
            by = next(pattern for pattern in self.denied if node.matches((pattern,)))
            yield Broken(f"the device has no {by}", f"all operators but {_some(self.denied)}")
        elif self.allowed and not node.matches(self.allowed):
            near = difflib.get_close_matches(node.short.strip("_"), self.allowed, n=2, cutoff=0.6)
            yield Broken("the device does not have it", f"only {_some(self.allowed)}", " or ".join(near))


def _some(names: tuple[str, ...]) -> str:
    """Return a list for a sentence: the first few names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
