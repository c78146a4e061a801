"""The memory of one step of an audit, so that a resumed audit does not repeat the step's work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from driftline.store.audits import AuditMemory

Results = Mapping[str, Mapping[str, Any]]  # JSON objects by name


@dataclass(frozen=True)
class StepMemory:
    """The results of earlier runs of a step (`known`), and a function that stores new ones (`keep`)."""

    known: Results = field(default_factory=dict)
    keep: Callable[[Results], None] = lambda results: None

    @staticmethod
    def of(memory: AuditMemory, step: str) -> StepMemory:
        """Return the memory of one step of a stored audit."""
        return StepMemory(memory.kept(step), lambda results: memory.keep_all(step, results))


NO_MEMORY = StepMemory()
