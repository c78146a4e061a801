"""Ablation of a stored bug: finds the compiler rules and settings that a failure depends on, and stores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from driftline.campaign.explain.budget import cut_at_end
from driftline.campaign.explain.failing import Failing
from driftline.campaign.explain.inquiry import Inquiry
from driftline.campaign.explain.localization import failing_sample, votes_for
from driftline.checking.checker import Checker
from driftline.core.case import Case
from driftline.core.quoting import shell
from driftline.diagnose.ablate.ablator import Ablation, ablate_case, to_json
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.trials import Trials
from driftline.events import Listener, ignore, says
from driftline.report.results import replay_command
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses

STEP = "ablate"


@dataclass(frozen=True)
class Ablated:
    """An ablation and the JSON that is stored for it."""

    failing: Failing
    ablation: Ablation
    body: dict[str, Any]


def ablate_failing(
    checker: Checker,
    store: Store,
    failing: Failing,
    *,
    budget: float,
    case: Case | None = None,
    inquiry: Inquiry | None = None,
    listener: Listener = ignore,
) -> Ablated:
    """Ablate a failure within a budget of seconds and store the result. `case`: a smaller case that fails in the same
    way. `inquiry`: the measurement to repeat, for a cost bug, whose results are right."""
    wanted = case or failing_sample(failing)
    signature = Signature.of_finding(failing.finding.verdict, failing.finding.execution)
    trials = inquiry.trials(wanted) if inquiry else Trials(checker, wanted, signature, votes_for(failing))
    with cut_at_end(checker.pool, budget, STEP):
        found = ablate_case(checker, wanted, trials, budget=budget, listener=says(listener, "ablate"))
    of_case = store.save_case(case) if case else failing.finding.case_id
    body = {"bug": failing.bug.id, "of_case": of_case, **to_json(found)}
    for cure in body["cures"]:
        subject = of_case if case and not inquiry else failing.bug.id  # a case by itself is checked, not measured
        cure["command"] = f"{replay_command(subject, store.path)} --target {shell([cure['target']])}"
    Diagnoses(store).save(failing.bug.id, STEP, body)
    return Ablated(failing, found, body)
