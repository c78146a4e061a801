"""One rule for people: its pattern, its source, a program that fires it, what it leaves free."""

from __future__ import annotations

from typing import Any

from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.rule import Rule
from driftline.core.text import did_you_mean
from driftline.patterns.audit import available_compilers, rules_of
from driftline.patterns.inductor_audit import ATTEMPTS, TASKS, worker_kind

SECONDS = 30.0  # to find a program for one rule


def describe(checker: Checker, name: str) -> dict[str, Any]:
    """Everything that is known of the rule with this id or name."""
    rule = _find(checker, name)
    if rule.compiler != "inductor":
        return {"rule": rule.to_json()}
    payload = {"rule": rule.id, "attempts": ATTEMPTS, "seconds": SECONDS}
    report = checker.pool.run(worker_kind(), f"{TASKS}:show_rule", payload, timeout=SECONDS + 60)
    if report.ending != "done":
        return {"rule": rule.to_json(), "reason": f"every program for it killed the process ({report.detail})"}
    return {"rule": rule.to_json(), **report.result}


def _find(checker: Checker, name: str) -> Rule:
    every: list[Rule] = []
    for compiler, missing in available_compilers().items():
        if missing:
            continue
        rules = rules_of(checker, compiler)[1]
        found = [rule for rule in rules if name in (rule.id, rule.name)] or [
            rule for rule in rules if len(name) > 3 and rule.id.startswith(name)
        ]
        if found:
            return found[0]
        every += rules
    raise DriftlineError(
        f"{name}: there is no rule with this id or name.{did_you_mean(name, [rule.name for rule in every])}"
        " See driftline patterns list."
    )
