"""Make a rule fire: build programs that contain its pattern until the whole compiler applies it to one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from driftline.backends.inductor_rules.registry import Registered, find
from driftline.core.rule import Reach
from driftline.core.text import first_line
from driftline.patterns.inductor.alone import alone
from driftline.patterns.inductor.draft import Draft
from driftline.patterns.inductor.invert import NotBuilt, build
from driftline.patterns.inductor.pipeline import Passed, run_passes
from driftline.patterns.inductor.requests import Firing
from driftline.patterns.inductor.shadow import shadowed_by
from driftline.programs.torch_names import Unwritable

_RUNS = 6  # of the whole compiler, on programs that fire a rule which stands by itself


@dataclass
class _RuleTrial:
    """The best result for one rule so far."""

    registered: Registered
    best: Firing
    runs: int = 0
    reasons: list[str] = field(default_factory=list)
    error: str = ""  # the error that the rule raised in the compiler

    def saw(self, firing: Firing) -> None:
        if (firing.reach.rank, len(firing.also)) > (self.best.reach.rank, len(self.best.also)):
            self.best = firing

    def run(self, firing: Firing) -> bool:
        """Run the whole compiler on the program. Returns True if the rule fires."""
        self.runs += 1
        passed = run_passes(firing.text, dict(firing.needs), training=firing.training, run=firing.training)
        also = tuple(sorted(passed.fired - {firing.rule}))
        activity = passed.activity.get(firing.rule)
        self.error = self.error or (activity.error if activity else "")
        self.saw(replace(firing, reach=_further(firing.reach, _seen(passed, firing.rule)), also=also))
        return firing.rule in passed.fired


def fire(rule_id: str, attempts: range, deadline: float | None = None) -> Firing:
    """Try one attempt after another until the rule fires or `deadline` (of `time.monotonic`) has passed."""
    registered = find(rule_id)
    trial = _RuleTrial(registered, Firing(rule_id, reason=registered.rule.unreachable))
    if registered.rule.unreachable:
        return trial.best
    for firing in _firings(trial, attempts):
        trial.saw(firing)
        if _worth_running(trial, firing) and trial.run(firing):
            return trial.best
        if deadline is not None and time.monotonic() > deadline:
            break
    return replace(trial.best, reason=_reason(trial))


def draft_of(registered: Registered, attempt: int) -> Draft:
    """Return a program for the rule: from the function that the rule was traced from, or else from its pattern."""
    if registered.search is None:
        return build(registered, attempt)
    from driftline.patterns.inductor import search

    return search.draft_of(registered, attempt)


def _firings(trial: _RuleTrial, attempts: range) -> Iterator[Firing]:
    """Yield programs for the rule, with the effect of the rule alone. Programs a user could have written come before
    those that name operators individually."""
    rule = trial.registered.rule.id
    for attempt in attempts:
        try:
            draft = draft_of(trial.registered, attempt)
            texts = dict.fromkeys((draft.text(), replace(draft, user_level=False).text()))
        except (NotBuilt, Unwritable) as reason:
            trial.reasons.append(str(reason))
            continue
        reach = Reach.BUILT
        if trial.registered.search is None:  # the others are written with functions that the rule sees taken apart
            reach = alone(trial.registered, draft).reach
        for text in list(texts)[: 1 if trial.runs < _RUNS // 2 else 2]:
            yield Firing(rule, reach, attempt, text, draft.needs, draft.training)


def _worth_running(trial: _RuleTrial, firing: Firing) -> bool:
    """True if running the whole compiler is worthwhile. It takes a hundred times as long as the rule alone, which
    usually predicts the result."""
    if trial.registered.search is not None:
        return True
    if firing.reach is Reach.FIRED_ALONE:
        return trial.runs < _RUNS
    return trial.runs == 0 and firing.attempt is not None and firing.attempt % 4 == 3


def _seen(passed: Passed, rule: str) -> Reach:
    activity = passed.activity.get(rule)
    if activity is None or not activity.matched:
        return Reach.BUILT
    return Reach.FIRED if activity.changed else Reach.MATCHED


def _further(first: Reach, second: Reach) -> Reach:
    return max(first, second, key=lambda reach: reach.rank)


def _reason(trial: _RuleTrial) -> str:
    """Return why the rule did not fire, as far as is known."""
    best = trial.best
    if best.reach is Reach.NONE:
        return trial.reasons[0] if trial.reasons else "no program was made"
    if trial.error:
        return f"it fails: {first_line(trial.error)}"
    if best.reach is Reach.FIRED_ALONE or (trial.registered.search is not None and best.text):
        shadow = shadowed_by(best.rule, best.text, dict(best.needs), best.training)
        if shadow:
            return f"shadowed by {shadow}"
    return f"not found in {trial.runs} runs of the compiler"
