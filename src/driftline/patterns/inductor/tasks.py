"""What workers are asked about Inductor's rules: list them, bring them to fire, look for programs they get wrong.

Private operators may kill the process even without a compiler. So every answer is written down as soon as it is there,
and each question before it is asked: the parent sees which one was the last.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from driftline.core.rule import Reach
from driftline.core.task import Context

ANSWERS = "answers.jsonl"
MOST_LABELS = 60


def warm(_: object) -> None:
    """Fill the tables of rules before anything is compiled: only then is it known what replacements were made from."""
    from driftline.backends.inductor_rules.recorder import recorder
    from driftline.backends.inductor_rules.registry import registered

    registered()
    recorder()


def list_rules(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Every rule of the torch that this interpreter has."""
    import torch

    from driftline.backends.inductor_rules.registry import registered

    return {"version": torch.__version__, "rules": [each.rule.to_json() for each in registered()]}


def list_outside(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """What rewrites graphs outside the tables, and what can be swept for it."""
    from driftline.backends.inductor_rules.outside import outside_rules
    from driftline.patterns.inductor.sweep import subjects

    return {"rules": [rule.to_json() for rule in outside_rules()], "subjects": subjects()}


def sweep(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Everything that does something to the programs of each subject."""
    from driftline.patterns.inductor.sweep import sweep as sweep_subject

    def answers(subject: str) -> Iterator[dict[str, Any]]:
        try:
            yield {"rewrites": sorted(sweep_subject(subject, payload["seed"]))}
        except Exception as error:  # an operator test that does not run here says nothing about rules
            yield {"rewrites": [], "problem": f"{type(error).__name__}: {error}"}

    return _each(payload, context, answers)


def show_rule(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """One rule: its pattern as a tree, the source of what applies it, a program that fires it, what it leaves free."""
    from driftline.backends.inductor_rules.registry import find
    from driftline.backends.inductor_rules.text import pattern_tree
    from driftline.patterns.inductor.fire import fire as fire_rule

    found = find(payload["rule"])
    firing = fire_rule(found.rule.id, range(payload["attempts"]), time.monotonic() + payload["seconds"])
    fires = firing.reach is Reach.FIRED
    return {
        "tree": pattern_tree(found.entry.pattern),
        "source": _source(found.handler),
        "replacement": _source(found.replace) if found.replace else "",
        "reach": str(firing.reach),
        "program": firing.text,
        "options": dict(firing.needs),
        "reason": "" if fires else found.rule.unreachable or firing.reason,
        "free": _free(found, firing.attempt) if fires and firing.attempt is not None else [],
    }


def _free(found: Any, attempt: int) -> list[str]:
    """What can be changed in the program that fires the rule, in words."""
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


def fire(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Bring rules to fire, one after another."""
    from driftline.patterns.inductor.fire import fire as fire_rule

    def answers(rule: str) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + payload["seconds_each"]
        firing = fire_rule(rule, range(payload["attempts"]), deadline)
        yield {**asdict(firing), "needs": dict(firing.needs), "also": list(firing.also)}

    return _each(payload, context, answers)


def suspect(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Change what each rule leaves free, and see which programs it then gets wrong."""
    from driftline.patterns.inductor.suspect import suspects

    def answers(rule: str) -> Iterator[dict[str, Any]]:
        deadline = time.monotonic() + payload["seconds_each"]
        attempt, made_for = payload["programs"][rule]
        for found in suspects(rule, attempt, payload["seed"], deadline, made_for):
            context.lap()
            yield found.to_json()

    return _each(payload, context, answers)


def _each(
    payload: dict[str, Any], context: Context, answers: Callable[[str], Iterator[dict[str, Any]]]
) -> dict[str, Any]:
    with open(Path(payload["folder"]) / ANSWERS, "a") as file:

        def write(value: dict[str, Any]) -> None:
            file.write(json.dumps(value) + "\n")
            file.flush()

        for rule in payload["rules"]:
            context.lap()
            write({"asked": rule})
            try:
                for answer in answers(rule):
                    write({"rule": rule, **answer})
            except Exception:  # a fault of ours costs this rule, not the others
                write({"rule": rule, "internal_error": traceback.format_exc()})
            write({"done": rule})
    return {}
