"""Worker tasks about Inductor's rules: list them, make them fire, look for programs that they get wrong."""

from __future__ import annotations

import contextlib
import inspect
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from driftline.core.rule import Reach
from driftline.core.task import Context
from driftline.llm.rules import RuleText
from driftline.patterns.inductor.requests import (
    ANSWERS,
    FIRE,
    LIST_OUTSIDE,
    LIST_RULES,
    RULE_TEXT,
    SHOW_RULE,
    SUSPECT,
    SWEEP,
    FireRequest,
    InductorRules,
    ListOutsideRequest,
    ListRulesRequest,
    ManyRequest,
    OutsideRules,
    QuestionAsked,
    QuestionDone,
    QuestionMistaken,
    RuleAnswer,
    RuleAtWork,
    RuleTextRequest,
    ShowRuleRequest,
    SuspectRequest,
    SweepRequest,
    Swept,
    Written,
    write_line,
)

MOST_LABELS = 60
_NO_CONDITION = ("_return_true", "return_true")


def warm(_: object) -> None:
    """Fill the tables of rules before anything is compiled, since only then can the source of replacements be
    recorded."""
    from driftline.backends.inductor_rules.recorder import recorder
    from driftline.backends.inductor_rules.registry import registered

    registered()
    recorder()


@LIST_RULES.serve
def list_rules(request: ListRulesRequest, context: Context) -> InductorRules:
    import torch

    from driftline.backends.inductor_rules.registry import registered

    return InductorRules(torch.__version__, tuple(each.rule for each in registered()))


@LIST_OUTSIDE.serve
def list_outside(request: ListOutsideRequest, context: Context) -> OutsideRules:
    from driftline.backends.inductor_rules.outside import outside_rules
    from driftline.patterns.inductor.sweep import subjects

    return OutsideRules(tuple(outside_rules()), tuple(subjects()))


@RULE_TEXT.serve
def rule_text(request: RuleTextRequest, context: Context) -> RuleText:
    """Return the rule's pattern as a tree, and the source of its handler, replacement and condition."""
    from driftline.backends.inductor_rules.registry import find
    from driftline.backends.inductor_rules.text import pattern_tree

    found = find(request.rule)
    return RuleText(
        tree=pattern_tree(found.entry.pattern),
        source=_source(found.handler),
        replacement=_source(found.replace) if found.replace else "",
        condition=_source(found.condition) if found.rule.check not in _NO_CONDITION else "",
    )


@SHOW_RULE.serve
def show_rule(request: ShowRuleRequest, context: Context) -> RuleAtWork:
    from driftline.backends.inductor_rules.registry import find
    from driftline.patterns.inductor.fire import fire as fire_rule

    found = find(request.rule)
    firing = fire_rule(found.rule.id, range(request.attempts), time.monotonic() + request.seconds)
    fires = firing.reach is Reach.FIRED
    return RuleAtWork(
        text=rule_text(RuleTextRequest(found.rule.id), context),
        reach=firing.reach,
        program=firing.text,
        options=dict(firing.needs),
        reason="" if fires else found.rule.unreachable or firing.reason,
        free=tuple(_free(found, firing.attempt)) if fires and firing.attempt is not None else (),
    )


def _free(found: Any, attempt: int) -> list[str]:
    """Return the kinds of changes that can be made to the program that fires the rule, in words."""
    from driftline.patterns.inductor.fire import draft_of
    from driftline.patterns.inductor.perturb import mutants

    labels: dict[str, None] = {}
    source = mutants(draft_of(found, attempt), 0)
    with contextlib.suppress(StopIteration):
        labels[next(source).label] = None
        while len(labels) < MOST_LABELS:
            labels[source.send(True).label] = None
    return list(labels)[1:]  # the first is the program as it is


def _source(function: Any) -> str:
    while hasattr(function, "func"):
        function = function.func
    try:
        return inspect.getsource(inspect.unwrap(function)) if function else ""
    except (OSError, TypeError):
        return ""


@FIRE.serve
def fire(request: FireRequest, context: Context) -> Written:
    from driftline.patterns.inductor.fire import fire as fire_rule

    def answers(rule: str) -> Iterator[RuleAnswer]:
        yield fire_rule(rule, range(request.attempts), time.monotonic() + request.seconds_each)

    return _each(request, context, answers)


@SWEEP.serve
def sweep(request: SweepRequest, context: Context) -> Written:
    from driftline.patterns.inductor.sweep import sweep as sweep_subject

    def answers(subject: str) -> Iterator[RuleAnswer]:
        try:
            yield Swept(subject, tuple(sorted(sweep_subject(subject, request.seed))))
        except Exception as error:  # an operator test that does not run here says nothing about rules
            yield Swept(subject, problem=f"{type(error).__name__}: {error}")

    return _each(request, context, answers)


@SUSPECT.serve
def suspect(request: SuspectRequest, context: Context) -> Written:
    from driftline.patterns.inductor.suspect import suspects

    def answers(rule: str) -> Iterator[RuleAnswer]:
        deadline = time.monotonic() + request.seconds_each
        program = request.programs[rule]
        for found in suspects(rule, program.attempt, request.seed, deadline, program.made_for):
            context.lap()
            yield found

    return _each(request, context, answers)


def _each(request: ManyRequest, context: Context, answers: Callable[[str], Iterator[RuleAnswer]]) -> Written:
    from driftline.patterns.inductor.placing import on_device

    with open(request.folder / ANSWERS, "a") as file, on_device(request.device):
        for subject in request.subjects:
            context.lap()
            write_line(file, QuestionAsked(subject))
            try:
                for answer in answers(subject):
                    write_line(file, answer)
            except Exception:
                write_line(file, QuestionMistaken(subject, traceback.format_exc()))
            write_line(file, QuestionDone(subject))
    return Written()
