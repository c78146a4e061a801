"""The facts about one failure that causes are matched against, wherever they were measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftline.causes.cause import Question
from driftline.core.evidence import Evidence

# Operators that compute nothing: a cause need not name them.
GLUE = frozenset({"constant", "identity"})
_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}


def machine_name(text: str) -> str:
    """Return one common name for a kind of processor."""
    return _MACHINES.get(text.lower(), text.lower())


@dataclass(frozen=True)
class Sighting:
    """One failure. `answers` has the results of tests on the case: True if it passes that way."""

    backend: str
    kind: str
    evidence: Evidence
    version: str = ""
    machine: str = ""
    stage: str = ""
    operators: frozenset[str] = frozenset()  # by their common names, see core/spelling.py
    dtypes: frozenset[str] = frozenset()
    options: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[Question, bool] = field(default_factory=dict)
    empty: bool = False  # an input of the failing program has no elements
    later_call: bool = False  # the first call of the compiled program is right
    settings: frozenset[str] = frozenset()  # of its operators, in the words of programs/settings.py

    def passes(self, question: Question) -> bool | None:
        """Return the answer to a question, or None if it was not tested."""
        if question.what == "without" and question.value in self.evidence.needs:
            return True
        return self.answers.get(question)

    def facts(self) -> dict[str, Any]:
        """Return the facts that a finding must store beside its verdict and execution, so that the sighting can be
        rebuilt.
        """
        return {
            "machine": self.machine,
            "operators": sorted(self.operators),
            "dtypes": sorted(self.dtypes),
            **({"empty": True} if self.empty else {}),
            **({"later_call": True} if self.later_call else {}),
            **({"settings": sorted(self.settings)} if self.settings else {}),
            "answers": [
                {"passes": one.what, "value": one.value, "answer": said} for one, said in sorted(self.answers.items())
            ],
        }


def answers_from(told: Any) -> dict[Question, bool]:
    """Parse answers that `facts` wrote."""
    return {Question(str(one["passes"]), str(one["value"])): bool(one["answer"]) for one in told or ()}
