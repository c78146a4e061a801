"""Ask a language model for the requirements of rules, many at a time, for `driftline patterns describe`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from driftline.core.rule import Rule
from driftline.llm.allowance import Allowance
from driftline.llm.requirement import Analyst, RequirementAnswer
from driftline.llm.rules import RuleBook, RuleText
from driftline.llm.settings import LlmSettings

NO_SOURCE = "its source is not known"
SPENT = "the allowance was spent before"


@dataclass(frozen=True)
class AskedRule:
    """A rule, its text, and the description that the language model gave."""

    rule: Rule
    text: RuleText
    described: RequirementAnswer

    @property
    def tokens(self) -> int:
        return self.described.answer.tokens if self.described.answer else 0


def describe_rules(
    rules: Sequence[Rule],
    book: RuleBook,
    analyst: Analyst,
    settings: LlmSettings,
    allowance: Allowance,
) -> Iterator[AskedRule]:
    """Yield each rule with its description, in order, asking as many at once as connections are allowed. When the
    allowance is spent, the remaining rules are yielded without one."""
    tokens, cost = 0, 0.0
    with ThreadPoolExecutor(settings.connections) as threads:
        for at in range(0, len(rules), settings.connections):
            wave = [(rule, book.text(rule)) for rule in rules[at : at + settings.connections]]
            may_ask = allowance.left(tokens, cost)

            def one(pair: tuple[Rule, RuleText], may_ask: bool = may_ask) -> RequirementAnswer:
                rule, text = pair
                if not text:
                    return RequirementAnswer(None, NO_SOURCE)
                known = analyst.known(rule, text)
                if known is not None or not may_ask:
                    return RequirementAnswer(known, "" if known else SPENT)
                return analyst.describe(rule, text)

            for (rule, text), found in zip(wave, threads.map(one, wave), strict=True):
                if found.answer:
                    tokens += found.answer.tokens
                    cost += settings.cost(found.answer.prompt_tokens, found.answer.answer_tokens)
                yield AskedRule(rule, text, found)
