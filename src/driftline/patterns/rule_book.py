"""The rules of compilers as shown to language models: what a rule matches, and a program that fires it.

A program is searched for once and stored, since which one is found first may depend on how busy the machine is. Passes
of XLA and fusions of TensorFlow Lite have no readable source: they are described by a sentence and by an example
program, which is shown only if it makes the pass active here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker
from driftline.core.answers import releases, remembered, surroundings
from driftline.core.rule import Rule
from driftline.core.target import Target
from driftline.core.wire import decode, encode
from driftline.llm.rules import RuleText, ShownRule
from driftline.patterns.audit import rules_of
from driftline.patterns.describe import describe_rule
from driftline.patterns.inductor.requests import RULE_TEXT, RuleTextRequest
from driftline.patterns.inductor_audit import worker_kind
from driftline.patterns.pass_rules import DESCRIBED, firing_program, pass_rules, pass_text
from driftline.store import Store
from driftline.store.models import ShownRules

KNOWN = ("inductor", *DESCRIBED)  # compilers whose rules are known, and which tell when they fire


class CompilerRules:
    """Implements `llm.rules.RuleBook` for the compilers whose rules can be listed."""

    def __init__(self, checker: Checker, store: Store) -> None:
        self._checker = checker
        self._kept = ShownRules(store)

    def rules(self, target: Target) -> Sequence[Rule]:
        """Return the rules that may fire on a target, with the options that each needs besides the target's own. Rules
        whose options contradict those of the target are left out."""
        if target.backend not in KNOWN or target.version:
            return ()
        said = dict(target.options)
        if target.backend in DESCRIBED:
            return pass_rules(target.backend, said)
        _, rules = rules_of(self._checker, target.backend)
        return [
            rule
            for rule in rules
            if not rule.unreachable and all(said.get(key, value) == value for key, value in rule.needs)
        ]

    def text(self, rule: Rule) -> RuleText:
        if rule.compiler in DESCRIBED:
            return pass_text(rule)
        if rule.compiler != "inductor" or "/" in rule.id:
            return RuleText(rule.text)

        def ask() -> object:
            return encode(RuleText, self._checker.pool.ask(worker_kind(), RULE_TEXT, RuleTextRequest(rule.id)))

        told = remembered("rule-text", [surroundings(), releases(("torch",)), rule.id], ask).value
        return decode(RuleText, told)

    def shown(self, rule: Rule) -> ShownRule:
        packages = BACKENDS.get(rule.compiler).packages if rule.compiler in DESCRIBED else ("torch",)
        release = ":".join(f"{name}={version}" for name, version in sorted(releases(packages).items()))
        if rule.compiler in DESCRIBED:  # several compilers have passes of one name
            release = f"{rule.compiler}:{release}"
        if (body := self._kept.get(rule.id, release)) is not None:
            return decode(ShownRule, body)
        if rule.compiler in DESCRIBED:
            made = ShownRule(pass_text(rule), firing_program(self._checker.pool, rule))
        else:
            made = self._shown_rule(rule)
        self._kept.keep(rule.id, release, encode(ShownRule, made))
        return made

    def _shown_rule(self, rule: Rule) -> ShownRule:
        told = describe_rule(self._checker, rule)
        text = RuleText(**{field.name: told.get(field.name, "") for field in fields(RuleText)})
        fires = told.get("reach") == "fired"
        return ShownRule(
            text if text else self.text(rule),
            told.get("program", "") if fires else "",
            tuple(sorted((told.get("options") or {}).items())) if fires else rule.needs,
        )
