"""The audit of a compiler that takes ONNX: fire its rules, change what they leave free, judge what differs.

First every idiom as it is, to see which rules it fires; then operator tests and random graphs, for rules that no idiom
fires; then the models that fire something, each with one thing changed. Where the results with and without a rule
differ, the ordinary `check` decides, on the compiler as users have it; and the rule is named only if the model passes
without it.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from driftline.checking.batch import case_of
from driftline.checking.checker import Checker, TargetResult
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import InternalError
from driftline.core.rule import Reach, Rule
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Verdict
from driftline.execute.pool import Pool
from driftline.oracle.judge import Reference
from driftline.patterns.onnx_models import OnnxModels
from driftline.patterns.survey import Made

PASSES = 4  # so many suspects of one rule and change may turn out sound before the rest is not looked at
GRACE = 60.0  # seconds after the end of the budget in which what was found is still attributed
Tell = Callable[[str], None]


class Suspect(NamedTuple):
    """A rule that was seen to break a model, confirmed by the ordinary check on the compiler as users have it."""

    rule: Rule
    change: str  # what was changed in a model that it fires on; empty: nothing
    case: Case
    result: TargetResult
    reference: Reference
    base: str  # the idiom, or the program of another generator


class Auditee:
    """A compiler with named rules. One subclass for each compiler."""

    compiler: str
    batch = 40  # models in one job: some seconds of work
    ways = 4  # of writing each idiom: with and without nodes before and after it

    def rules(self, pool: Pool) -> list[Rule]:
        """Every rule that is known of, with why it cannot fire here, if so."""
        raise NotImplementedError

    def target(self, rule: Rule | None = None) -> Target:
        """The compiler as users have it; with what a rule needs, when that is off by default."""
        return Target(self.compiler, None, rule.needs if rule else ())

    def surveyed(self, rules: Sequence[Rule]) -> list[Target]:
        """On which targets models are looked at, so that all of these rules are seen."""
        return list(dict.fromkeys(self.target(rule) for rule in rules))

    def without(self, target: Target, rule: Rule) -> Target | None:
        """The same without this rule; `None` when nothing works without it."""
        raise NotImplementedError

    def alone(self, target: Target, rule: Rule) -> Target | None:
        """The compiler with no other rule than this; `None` when that cannot be had."""
        return None

    def exact(self, rule: Rule) -> bool:
        """Does the rule promise to keep what a model means? Some say openly that they do not."""
        return True

    def convincing(self, rule: Rule, verdict: Verdict) -> bool:
        """May a failure be put down to the rule itself?"""
        return True

    def ask(self, pool: Pool, target: Target, models: Sequence[Made]) -> list[dict[str, Any]]:
        """For each model: names of rules that `matched`, that `fired`, and those whose results are `differing`, with
        what differs; or `crash`."""
        raise NotImplementedError


@dataclass
class Tally:
    """How far each rule was brought, and what was looked at."""

    reach: dict[str, Reach] = field(default_factory=dict)  # by the rule's name
    models: int = 0
    suspects: int = 0
    sound: int = 0  # suspects that pass the check: rounding, or what the standard leaves open
    unattributed: int = 0  # failures that no single rule explains: the kernels' own

    def raise_to(self, name: str, reach: Reach) -> None:
        if reach.rank > self.reach.get(name, Reach.NONE).rank:
            self.reach[name] = reach

    def fired(self) -> list[str]:
        return sorted(name for name, reach in self.reach.items() if reach is Reach.FIRED)


class OnnxAudit:
    """One audit. `run` yields what is confirmed; `tally` tells the rest."""

    def __init__(
        self,
        checker: Checker,
        auditee: Auditee,
        *,
        budget: float,
        seed: int = 0,
        only: Callable[[Rule], bool] = lambda rule: True,
        idioms: Sequence[str] = (),  # no other models than these; default: all there are
        rounds: int = 1000,  # how often every change is made, if there is time
        tell: Tell = lambda words: None,
    ) -> None:
        self._checker = checker
        self._auditee = auditee
        self._deadline = time.monotonic() + budget
        self._only = only
        self._tell = tell
        self._idioms, self._rounds = idioms, rounds
        self._models = OnnxModels(checker.pool, seed)
        self._options = CheckOptions(seed=seed, timeout=60.0)
        self._rng = random.Random(seed)
        self._firing: dict[str, dict[str, None]] = defaultdict(dict)  # bases by the rule that they fire
        self._judged: Counter[tuple[str, str]] = Counter()
        self._done: set[tuple[str, str]] = set()  # rules with the change, or the unchanged base, that breaks them
        self.tally = Tally()
        self.rules = {rule.name: rule for rule in auditee.rules(checker.pool)}

    def run(self) -> Iterator[Suspect]:
        arms = list(self._idioms or self._models.idioms())
        self._rng.shuffle(arms)  # some take long: when time is short, it is spread over all kinds
        idioms = [(arm, number) for number in range(self._auditee.ways) for arm in arms]
        wanted = [rule for rule in self.rules.values() if self._only(rule)]
        targets = self._auditee.surveyed([rule for rule in wanted if not rule.unreachable])
        default = self._auditee.target()
        for target in targets:
            some = [pair for pair in idioms if target == default or pair[1] in (0, self._auditee.ways - 1)]
            yield from self._pass(target, some, f"idioms on {target}")
        if not self._idioms and any(self._unfired(wanted)):
            others = [(arm, 0) for arm in self._models.others()]
            yield from self._pass(default, others, "programs of the generators")
        for number in range(self._rounds):
            if time.monotonic() > self._deadline or not any(self._firing.values()):
                return
            for target in targets:  # the same changes in every round, made in other places
                made = [(arm, number) for base in self._bases(targets, target) for arm in self._models.changed(base)]
                self._rng.shuffle(made)
                yield from self._pass(target, made, f"changed on {target}, round {number + 1}")

    def _unfired(self, rules: Sequence[Rule]) -> Iterator[Rule]:
        return (rule for rule in rules if not rule.unreachable and self.tally.reach.get(rule.name) is not Reach.FIRED)

    def _bases(self, targets: Sequence[Target], target: Target) -> list[str]:
        """What fires a rule that is audited: all that were written for it, and a few of the other programs."""
        found: dict[str, None] = {}
        for name, bases in self._firing.items():
            rule = self.rules.get(name)
            if rule and self._only(rule) and (len(targets) == 1 or self._auditee.target(rule) == target):
                written = [base for base in bases if ":" not in base]
                found |= dict.fromkeys(written + [base for base in bases if ":" in base][: max(0, 4 - len(written))])
        return list(found)

    def _pass(self, target: Target, wanted: Sequence[tuple[str, int]], words: str) -> Iterator[Suspect]:
        for at in range(0, len(wanted), self._auditee.batch):
            if time.monotonic() > self._deadline:
                return
            models = self._models.make(wanted[at : at + self._auditee.batch])
            self.tally.models += len(models)
            answers = self._auditee.ask(self._checker.pool, target, models)
            fired = len(self.tally.fired())
            self._tell(f"{words}: {at + len(models)} of {len(wanted)}, {fired} of {len(self.rules)} rules fired")
            for made, answer in zip(models, answers, strict=True):
                self._count(made, answer)
                yield from self._judge(target, made, answer)

    def _count(self, made: Made, answer: Mapping[str, Any]) -> None:
        for name in answer.get("matched", ()):
            self.tally.raise_to(name, Reach.MATCHED)
        for name in answer.get("fired", ()):
            self.tally.raise_to(name, Reach.FIRED)
            if not made.change:
                self._firing[name][made.base] = None

    def _judge(self, asked: Target, made: Made, answer: Mapping[str, Any]) -> Iterator[Suspect]:
        """Check what differs, on the target that its rules need."""
        groups: dict[Target, list[str]] = {asked: []} if "crash" in answer else {}
        for name in answer.get("differing", {}):
            if self._worth(name, made):
                groups.setdefault(self._auditee.target(self.rules[name]), []).append(name)
        for target, names in groups.items():
            yield from self._check(target, made, names)

    def _check(self, target: Target, made: Made, names: Sequence[str]) -> Iterator[Suspect]:
        self.tally.suspects += 1
        case = case_of(made.answer, target, self._options)
        outcome = self._checker.check(case)
        result = outcome.results[0] if outcome.results else None
        if result and result.internal_error:
            raise InternalError(result.internal_error)
        if result is None or result.verdict.judgement is not Judgement.FAIL or result.flaky:
            self.tally.sound += 1
            self._judged.update((name, made.change) for name in names)
            return
        guilty = self._guilty(names or self.rules, case, outcome.reference)
        if not guilty:
            self.tally.unattributed += 1
        for name in guilty:
            if not self._auditee.convincing(self.rules[name], result.verdict):
                self.tally.unattributed += 1
                self._judged[name, made.change] += 1
                continue
            self._done.add((name, made.change or made.base))
            yield Suspect(self.rules[name], made.change, case, result, outcome.reference, made.base)

    def _worth(self, name: str, made: Made) -> bool:
        """One finding for each rule and change, none where the model fails unchanged already; and no more looks at a
        pair that was sound several times."""
        rule, pair = self.rules.get(name), (name, made.change)
        if rule is None or not self._only(rule) or not self._auditee.exact(rule):
            return False
        return not {pair, (name, made.base)} & self._done and self._judged[pair] < PASSES

    def _guilty(self, names: Iterable[str], case: Case, reference: Reference) -> list[str]:
        """The rules without which the model passes. Of several, those that break it all by themselves; or the last,
        as the ones before it only made the model what it takes."""
        cures = [
            name for name in names if self._judgement(self._auditee.without, name, case, reference) is Judgement.PASS
        ]
        if len(cures) < 2:
            return cures
        alone = [
            name for name in cures if self._judgement(self._auditee.alone, name, case, reference) is Judgement.FAIL
        ]
        return alone or cures[-1:]

    def _judgement(
        self, changed: Callable[[Target, Rule], Target | None], name: str, case: Case, reference: Reference
    ) -> Judgement | None:
        target = changed(case.targets[0], self.rules[name])
        if target is None or time.monotonic() > self._deadline + GRACE:
            return None
        outcome = self._checker.check(replace(case, targets=(target,)), known_reference=reference)
        return outcome.results[0].verdict.judgement if outcome.results else None
