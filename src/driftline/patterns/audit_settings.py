"""The settings of an audit of rewrite rules, and of a test of passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from driftline.core.errors import DriftlineError


class AuditKeywords(TypedDict, total=False):
    """The settings of an audit as keyword arguments; the fields of `AuditSettings`."""

    seconds: float | None
    compilers: Sequence[str] | None
    only: str
    seed: int
    resume: bool
    number: int
    plugins: Sequence[str]


@dataclass(frozen=True)
class AuditSettings:
    """The settings of an audit or of a test of passes."""

    seconds: float | None = None  # None: half an hour for rules, ten minutes for passes
    compilers: Sequence[str] | None = None  # None: all that are installed
    only: str = ""  # a pattern of rules or passes
    seed: int = 0
    resume: bool = False  # resume the last one that was interrupted
    number: int = 0  # number of the audit to resume
    plugins: Sequence[str] = ()  # Python files that register further passes

    def __post_init__(self) -> None:
        if self.resume and (self.compilers is not None or self.only):
            raise DriftlineError("A resumed audit has its compilers and rules or passes; do not give others.")
