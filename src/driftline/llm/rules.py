"""A rewrite rule as it is shown to a model: its pattern, its source, and a program that fires it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from driftline.core.rule import Rule
from driftline.core.target import Target


@dataclass(frozen=True)
class RuleText:
    """The source texts of a rule in its compiler."""

    tree: str  # its pattern
    source: str = ""  # of the code that applies it, or of the function that its pattern was traced from
    replacement: str = ""  # source of the replacement
    condition: str = ""  # source of its extra check
    words: str = ""  # a description, if there is no source
    form: str = "torch"  # the form of programs for it

    @property
    def digest(self) -> str:
        """A digest of all texts of the rule."""
        parts = "\0".join((self.tree, self.source, self.replacement, self.condition))
        if self.words:
            parts = "\0".join((parts, self.words, self.form))
        return hashlib.sha256(parts.encode()).hexdigest()

    def __bool__(self) -> bool:
        return bool(self.tree or self.source or self.words)


@dataclass(frozen=True)
class ShownRule:
    """A rule's text with a program that fires it, if one is known."""

    text: RuleText
    program: str = ""
    options: tuple[tuple[str, str], ...] = ()  # of the target, without which the program does not fire it


class RuleBook(Protocol):
    """Interface that lists and describes the rewrite rules of compilers. Implemented in higher layers."""

    def rules(self, target: Target) -> Sequence[Rule]:
        """Return the rules that may fire on this target; empty if they are not known."""

    def text(self, rule: Rule) -> RuleText: ...

    def shown(self, rule: Rule) -> ShownRule: ...
