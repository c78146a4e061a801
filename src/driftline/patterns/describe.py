"""Describe one rule for people: its pattern, its source, a program that fires it, and what it leaves unconstrained."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.rule import Rule
from driftline.core.text import did_you_mean
from driftline.generate.changes import CHANGES
from driftline.patterns.audit import all_rules_of, available_compilers
from driftline.patterns.auditees import auditee
from driftline.patterns.inductor.requests import SHOW_RULE, ShowRuleRequest
from driftline.patterns.inductor_audit import ATTEMPTS, worker_kind
from driftline.patterns.onnx_models import OnnxModels
from driftline.patterns.pass_rules import DESCRIBED, find_pass, firing_program
from driftline.programs.onnx.text import model_text

BATCH = 40  # idioms asked at once
WAYS = 3  # each is written in
SECONDS = 30.0  # to find a program for one rule


def describe(checker: Checker, name: str) -> dict[str, Any]:
    """Return everything that is known about the rule with this id or name."""
    return describe_rule(checker, find_rule(checker, name))


def describe_rule(checker: Checker, rule: Rule) -> dict[str, Any]:
    if rule.compiler in DESCRIBED:
        program = firing_program(checker.pool, rule)
        reason = {} if program else {"reason": "no example of ours fires it"}
        return {"rule": rule.to_json(), "tree": rule.text, "program": program, **reason}
    if "/" in rule.id:
        return {"rule": rule.to_json()}
    if rule.compiler != "inductor":
        return {"rule": rule.to_json(), **_onnx_program(checker, rule)}
    request = ShowRuleRequest(rule.id, ATTEMPTS, SECONDS)
    report = checker.pool.run(worker_kind(), SHOW_RULE, request, timeout=SECONDS + 60)
    if report.answer is None:
        return {"rule": rule.to_json(), "reason": f"every program for it killed the process ({report.detail})"}
    told = asdict(report.answer)
    return {"rule": rule.to_json(), **told.pop("text"), **told}


def _onnx_program(checker: Checker, rule: Rule) -> dict[str, Any]:
    """Return a model that fires the rule, as text, and the kinds of changes that an audit makes to it; or why there is
    none."""
    if rule.unreachable:
        return {"reason": rule.unreachable}
    asked = auditee(rule.compiler)
    asked.rules(checker.pool)
    models = OnnxModels(checker.pool, 0)
    idioms = [(arm, number) for number in range(WAYS) for arm in models.idioms()]
    for at in range(0, len(idioms), BATCH):
        made = models.make(idioms[at : at + BATCH])
        answers = asked.ask(checker.pool, asked.target(rule), made, {})
        for model, answer in zip(made, answers, strict=True):
            if rule.name in answer.fired:
                return {"program": _text(model.answer.program.path), "free": list(CHANGES)}
    return {"reason": "none of the idioms fires it"}


def _text(path: Path) -> str:
    import onnx

    model = onnx.load(str(path))
    return model_text(model)[0] or str(onnx.printer.to_text(model))


def find_rule(checker: Checker, name: str) -> Rule:
    """Return the rule with this id, name or start of an id. Raises an error with suggestions if there is none."""
    named = find_pass(name)
    if named and name != named.name:
        return named  # xla/fusion
    every: list[Rule] = []
    for compiler, missing in available_compilers().items():
        if missing:
            continue
        rules = [rule for _, found in all_rules_of(checker, compiler).values() for rule in found]
        found = [rule for rule in rules if name in (rule.id, rule.name)] or [
            rule for rule in rules if len(name) > 3 and rule.id.startswith(name)
        ]
        if found:
            return found[0]
        every += rules
    if named:
        return named
    raise DriftlineError(
        f"{name}: there is no rule with this id or name.{did_you_mean(name, [rule.name for rule in every])}"
        " See driftline patterns list."
    )
