"""What is known of bugs already: upstream issues, and causes that show in many ways. The table is data, not code."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from driftline.core.verdict import Fingerprint


@dataclass(frozen=True)
class KnownIssue:
    """One row of `known_issues.json`. Patterns are regular expressions that must match the whole field."""

    title: str
    backend: str
    kinds: str  # pattern of the kind
    detail: str  # pattern of the detail
    cause: str  # all that match are one bug, which goes by this name
    kind: str  # and by this kind
    url: str = ""  # where it was reported
    stage: str = ""  # and by this stage, where it shows in several
    note: str = ""  # whether it is debatable, and why
    reason: str = ""  # pattern that must occur in the verdict's sentence
    machine: str = ""  # pattern of the processors that show it, where others do not

    @property
    def reported(self) -> bool:
        return bool(self.url)

    def matches(self, found: Fingerprint, reason: str) -> bool:
        if not re.fullmatch(self.backend, found.backend):
            return False
        if found.detail == self.cause:
            return True
        if self.machine and not re.fullmatch(self.machine, platform.machine()):
            return False
        return bool(re.search(self.reason, reason)) and (
            bool(re.fullmatch(self.kinds, found.kind)) and bool(re.fullmatch(self.detail, found.detail, re.DOTALL))
        )

    def to_json(self) -> dict[str, str]:
        return {"title": self.title, "url": self.url, "note": self.note}


@cache
def known_issues() -> tuple[KnownIssue, ...]:
    text = files("driftline.diagnose").joinpath("known_issues.json").read_text()
    rows: list[dict[str, Any]] = json.loads(text)["issues"]
    return tuple(KnownIssue(**row) for row in rows)


def known_issue(found: Fingerprint, reason: str = "") -> KnownIssue | None:
    """The first row that describes this failure."""
    return next((issue for issue in known_issues() if issue.matches(found, reason)), None)
