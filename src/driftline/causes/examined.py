"""The result of running the two programs of a cause."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from driftline.causes.cause import Cause


class State(StrEnum):
    HOLDS = "holds"  # the witness shows this cause and no other; the neighbour is something else
    DUE = "due"  # the witness passes: the file is due for removal, or for `fixed`
    WRONG = "wrong"
    SKIPPED = "skipped"  # not on this machine


@dataclass(frozen=True)
class ExaminedCause:
    """The result of checking a cause. `reason` says why it does not hold."""

    cause: Cause
    state: State
    reason: str = ""
    version: str = ""
    witness: str = ""  # what was observed
    neighbour: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.cause.id,
            "state": str(self.state),
            "reason": self.reason,
            "version": self.version,
            "witness": self.witness,
            "neighbour": self.neighbour,
        }
