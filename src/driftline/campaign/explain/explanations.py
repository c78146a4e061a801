"""Explains several bugs, one after the other, after a check or a hunt found them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from driftline.campaign.explain.diagnosis import EACH, Diagnosis, diagnose_failing
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.scripts import ScriptDiagnosis, diagnose_script, is_script
from driftline.causes import Library
from driftline.checking.checker import Checker
from driftline.core.closing import FailedStep, closing_step
from driftline.core.errors import DriftlineError
from driftline.events import BugSeen, ExplainingStarted, Listener, NotExplained, Working, ignore
from driftline.store import Bug, Store


@dataclass
class ExplainedBugs:
    """The explanations of several bugs, and the bugs that were met during the explanations."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    met: dict[str, Bug] = field(default_factory=dict)  # by id
    new: set[str] = field(default_factory=set)  # ids of the met bugs that the store did not know before
    asked: bool = False
    failed_steps: list[FailedStep] = field(default_factory=list)

    def meet(self, bugs: Sequence[Bug], known: Collection[str]) -> list[Bug]:
        """Add the bugs that were met; return those that are neither known nor met before."""
        fresh = [bug for bug in bugs if bug.id not in known and bug.id not in self.met]
        self.met |= {bug.id: bug for bug in bugs}
        self.new |= {bug.id for bug in fresh}
        return fresh

    def to_json(self) -> dict[str, Any]:
        return {"diagnoses": self.bodies} if self.asked else {}


def explain_bugs(
    checker: Checker,
    store: Store,
    bugs: Sequence[str],
    *,
    budget: float = EACH,
    library: Library | None = None,
    listener: Listener = ignore,
) -> ExplainedBugs:
    """Explain bugs, each within the budget of seconds; those that cannot be explained are reported to the listener."""
    names = list(dict.fromkeys(bugs))
    explained = ExplainedBugs(asked=True)
    if not names:
        return explained
    listener(ExplainingStarted(tuple(names), budget * len(names)))
    known = {bug.id for bug in store.bugs()}
    for number, name in enumerate(names, 1):
        listener(Working(f"explaining {name} ({number} of {len(names)})", ""))
        with closing_step(explained.failed_steps, f"explaining {name}", "the bug is kept without it"):
            try:
                failing = find_failing(name, store, checker, scripts=True)
                found: Diagnosis | ScriptDiagnosis
                if is_script(failing):
                    found = diagnose_script(checker, store, failing, budget=budget, listener=listener)
                else:
                    found = diagnose_failing(checker, store, failing, budget=budget, library=library, listener=listener)
            except DriftlineError as error:
                listener(NotExplained(name, str(error)))
                continue
            explained.failed_steps += found.failed_steps
            explained.bodies.append(found.to_json())
            for bug in explained.meet(found.met, known):
                listener(BugSeen(bug, new=True))
    return explained
