"""The requirement of a rule: what a program needs for the rule to fire, as a model that read its source says. Kept in
the store until the source, the prompt or the model changes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from driftline.core.rule import Rule
from driftline.core.wire import decode, encode
from driftline.llm.chat import ChatAnswer, ChatRequest, Sampling
from driftline.llm.model import RecordedModel
from driftline.llm.prompts import VERSION, describe_messages
from driftline.llm.rules import RuleText
from driftline.store import Store
from driftline.store.models import Requirements

_TEMPERATURE = 0.2  # it is to be right, not original
_MOST_TOKENS = 1024
_PARTS = re.compile(r"PATTERN\W*\n(?P<pattern>.*?)\n\W*CONSTRAINTS\W*\n(?P<constraints>.*)", re.S | re.I)


@dataclass(frozen=True)
class Requirement:
    """The conditions under which a rule fires, as a model says. Never evidence: only compiling shows that it fires."""

    pattern: str  # pseudo-code
    constraints: tuple[str, ...]
    text: str  # the answer, word for word

    @staticmethod
    def read(text: str) -> Requirement:
        """Parse an answer. If it does not follow the requested format, all its lines count as constraints."""
        found = _PARTS.search(text)
        if not found:
            return Requirement("", _lines(text), text)
        return Requirement(_unfenced(found["pattern"]), _lines(found["constraints"]), text)

    def words(self) -> str:
        """Return the requirement as text for a prompt."""
        constraints = "\n".join(f"- {line}" for line in self.constraints)
        return f"{self.pattern}\n{constraints}".strip()


@dataclass(frozen=True)
class RequirementAnswer:
    """The requirement of a rule, or the problem why there is none, with the model's answer."""

    requirement: Requirement | None
    problem: str = ""
    answer: ChatAnswer | None = None


class Analyst:
    """Asks a model for the requirements of rules, and stores them."""

    def __init__(self, store: Store, model: RecordedModel, name: str) -> None:
        self._kept = Requirements(store)
        self._model = model
        self.name = name

    def known(self, rule: Rule, text: RuleText) -> Requirement | None:
        body = self._kept.get(rule.id, text.digest, VERSION, self.name)
        return decode(Requirement, body) if body is not None else None

    def request(self, rule: Rule, text: RuleText) -> ChatRequest:
        return ChatRequest(self.name, describe_messages(rule, text), Sampling(_TEMPERATURE, _MOST_TOKENS))

    def describe(self, rule: Rule, text: RuleText) -> RequirementAnswer:
        """Return the requirement of a rule, from the store or from the model."""
        request = self.request(rule, text)
        known = self.known(rule, text)
        if known is not None:
            return RequirementAnswer(known, answer=self._model.kept(request))
        answer = self._model.ask(request, f"what {rule.name} needs")
        if answer.problem and not answer.text.strip():
            said = f" ({answer.finish_reason})" if answer.finish_reason else ""
            return RequirementAnswer(None, answer.problem + said, answer)
        made = Requirement.read(answer.text)  # an answer that was cut off is still useful
        self._kept.keep(rule.id, text.digest, VERSION, self.name, encode(Requirement, made))
        return RequirementAnswer(made, answer=answer)


def _lines(text: str) -> tuple[str, ...]:
    lines = (line.strip().lstrip("-*• ").strip() for line in _unfenced(text).splitlines())
    return tuple(line for line in lines if line)


def _unfenced(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith("```")).strip()
