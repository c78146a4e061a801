"""A rewrite rule as it is shown to a model: what it looks for, its source, and a program that fires it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from driftline.core.rule import Rule
from driftline.core.target import Target


@dataclass(frozen=True)
class RuleText:
    """The rule in the compiler's own words."""

    tree: str  # its pattern
    source: str = ""  # of what applies it, or of the function that its pattern was traced from
    replacement: str = ""  # source of what it puts in the place
    condition: str = ""  # source of what it asks besides the pattern
    words: str = ""  # what it does, where there is no source to be read
    form: str = "torch"  # in which programs for it are written

    @property
    def digest(self) -> str:
        """Changes when anything of the rule does."""
        parts = "\0".join((self.tree, self.source, self.replacement, self.condition))
        if self.words:
            parts = "\0".join((parts, self.words, self.form))
        return hashlib.sha256(parts.encode()).hexdigest()

    def __bool__(self) -> bool:
        return bool(self.tree or self.source or self.words)


@dataclass(frozen=True)
class ShownRule:
    """The rule with a program that fires it, where one is known."""

    text: RuleText
    program: str = ""
    options: tuple[tuple[str, str], ...] = ()  # of the target, without which the program does not fire it


class RuleBook(Protocol):
    """Knows the rules of compilers. The layers above implement it."""

    def rules(self, target: Target) -> Sequence[Rule]:
        """The rules that may fire on this target; none where they are not known."""

    def text(self, rule: Rule) -> RuleText: ...

    def shown(self, rule: Rule) -> ShownRule: ...
