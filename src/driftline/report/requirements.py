"""Show a language model's descriptions of rewrite rules, in the terminal and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from driftline.report.screen import Screen
from driftline.report.words import plural

if TYPE_CHECKING:
    from driftline.llm.settings import LlmSettings
    from driftline.patterns.requirements import AskedRule


def requirements_json(found: Sequence[AskedRule], settings: LlmSettings) -> dict[str, Any]:
    """Return the output of `patterns describe --json`; docs/json.md has the schema."""
    return {
        "schema": 1,
        "model": settings.analyst,
        "rules": [_rule_json(one) for one in found],
        "tokens": sum(one.tokens for one in found),
        "estimated": any(one.described.answer and one.described.answer.estimated for one in found),
        "cost": round(_cost(found, settings), 6) if settings.priced else None,
    }


def _rule_json(one: AskedRule) -> dict[str, Any]:
    requirement = one.described.requirement
    return {
        "id": one.rule.id,
        "name": one.rule.name,
        "group": one.rule.group,
        "source": one.text.digest,
        "pattern": requirement.pattern if requirement else "",
        "constraints": list(requirement.constraints) if requirement else [],
        "text": requirement.text if requirement else "",
        "asked": one.described.answer is not None,
        "tokens": one.tokens,
        "problem": one.described.problem,
    }


def show_requirements(found: Sequence[AskedRule], settings: LlmSettings) -> None:
    """Print each rule with the requirements that the model named, then the tokens and the cost."""
    out = Screen(width=None if sys.stdout.isatty() else 150, highlight=False)
    for one in found:
        out.print(f"\n[bold]{escape(one.rule.name)}[/]  {one.rule.id}  ({escape(one.rule.group)})")
        requirement = one.described.requirement
        if requirement is None:
            out.print(f"  no description: {escape(one.described.problem)}", soft_wrap=True)
            continue
        for line in requirement.pattern.splitlines():
            out.print(f"    {escape(line)}", style="cyan", soft_wrap=True)
        for line in requirement.constraints:
            out.print(f"  - {escape(line)}", soft_wrap=True)
    asked = [one for one in found if one.described.answer]
    tokens = sum(one.tokens for one in found)
    about = " (estimated)" if any(one.described.answer and one.described.answer.estimated for one in asked) else ""
    cost = f", {_cost(found, settings):.4f} of cost" if settings.priced else ""
    out.print(
        f"\n{plural(len(asked), 'rule')} asked of {escape(settings.analyst)}: {tokens:,} tokens{about}{cost};"
        f" {len(found) - len(asked)} not asked. What a model says is no evidence: whether a rule fires is seen by"
        " compiling.",
        soft_wrap=True,
    )


def _cost(found: Sequence[AskedRule], settings: LlmSettings) -> float:
    answers = [one.described.answer for one in found if one.described.answer]
    return sum(settings.cost(answer.prompt_tokens, answer.answer_tokens) for answer in answers)
