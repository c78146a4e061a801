"""The audit of a compiler that takes ONNX: fire its rules, change what they leave unconstrained, judge what differs.

First every idiom is tried unchanged, to see which rules it fires; then operator tests and random graphs, for rules that
no idiom fires; then the models that fire a rule, each with one change. Where the results with and without a rule
differ, the ordinary `check` decides, on the compiler as users have it; the rule is blamed only if the model passes
without it.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from driftline.checking.batch import case_of
from driftline.checking.checker import Checker, TargetResult
from driftline.core.announce import Announce
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import InternalError
from driftline.core.rule import Reach, Rule
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind
from driftline.execute.ahead import ahead
from driftline.oracle.judge import Reference
from driftline.patterns.agenda import growing
from driftline.patterns.auditees import Auditee
from driftline.patterns.step_memory import NO_MEMORY, StepMemory
from driftline.patterns.survey import Made, SurveySeen

# A batch knows which rules fired in those before it but the last few, done or not: so what is asked does not depend on
# how many are in work at once, which are never more.
LAG = 8
PASSES = 4  # so many suspects of one rule and change may turn out sound before the rest is not looked at
# When idioms as they are give way to the generators' programs, and these to changed models, if they are not through
# before: with a compiler that takes seconds for each, the budget would go to nothing else.
SHARE_OF_IDIOMS, SHARE_OF_PLAIN = 0.4, 0.55
GRACE = 60.0  # seconds after the end of the budget in which what was found is still attributed; of a short one a tenth
# No rule is asked about these: each would cost a minute, and a busy machine is answer enough.
_OF_THE_MACHINE = (Kind.TIMEOUT, Kind.OOM)

_Batch = Sequence[tuple[str, int]]  # arms with the number of the model


class AuditFailure(NamedTuple):
    """A model that fails the ordinary check on the compiler as users have it."""

    case: Case
    result: TargetResult
    reference: Reference

    @property
    def kind(self) -> str:
        return str(self.result.verdict.kind)


class GuiltyRule(NamedTuple):
    """A rule that is to blame for a failing model."""

    rule: Rule
    change: str  # the change to a model that the rule fires on; empty: none
    failure: AuditFailure
    base: str  # the idiom, or the program of another generator
    without: Target  # on which the model passes: the same compiler without the rule


@dataclass
class ModelOutcome:
    """The results of one model on one target: everything needed to resume the audit after it."""

    matched: list[str] = field(default_factory=list)  # names of rules
    fired: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # they are to blame for a failure that the change brought out
    unchanged: dict[str, str] = field(default_factory=dict)  # to blame for one of this kind without any change
    sound: list[str] = field(default_factory=list)  # results differed, and the check found nothing to blame them for


@dataclass
class Tally:
    """How far each rule came, and counts of what was tried."""

    reach: dict[str, Reach] = field(default_factory=dict)  # by the rule's name
    models: int = 0
    suspects: int = 0
    sound: int = 0  # suspects that pass the check: rounding, or results that the standard leaves undefined
    unattributed: int = 0  # failures that no single rule explains: the kernels' own

    def raise_to(self, name: str, reach: Reach) -> None:
        """Record that a rule reached a step, unless it has come further before."""
        if reach.rank > self.reach.get(name, Reach.NONE).rank:
            self.reach[name] = reach

    def fired(self) -> list[str]:
        return sorted(name for name, reach in self.reach.items() if reach is Reach.FIRED)


@dataclass(frozen=True)
class OnnxAuditPlan:
    """The settings of an audit of a compiler that takes ONNX."""

    budget: float  # seconds
    seed: int = 0
    plugins: tuple[str, ...] = ()
    only: Callable[[Rule], bool] = lambda rule: True  # the rules to audit
    idioms: Sequence[str] = ()  # the only models to try; default: all there are
    rounds: int = 1000  # how often every change is made, if there is time


class OnnxAudit:
    """One audit. `run` yields the rules that break a model; `tally` counts everything else."""

    def __init__(
        self,
        checker: Checker,
        auditee: Auditee,
        plan: OnnxAuditPlan,
        *,
        tell: Announce = lambda words: None,
        memory: StepMemory = NO_MEMORY,
    ) -> None:
        self._checker = checker
        self._auditee = auditee
        self._plan = plan
        self._begun = self._deadline = 0.0  # set when it begins: listing rules may take longer than a short budget
        self._tell = tell
        self._models = auditee.models(checker.pool, plan.seed)
        self._options = CheckOptions(seed=plan.seed, timeout=60.0, plugins=plan.plugins)
        self._rng = random.Random(plan.seed)
        self._firing: dict[str, dict[str, None]] = defaultdict(dict)  # bases by the rule that they fire
        self._fired: Counter[str] = Counter()  # models that each rule fired on
        self._judged: Counter[tuple[str, str]] = Counter()
        self._done: set[tuple[str, str]] = set()  # rules with the change, or the unchanged base, that breaks them
        self._plainly: set[tuple[str, str]] = set()  # rules with the kind of failure that needs no change
        self.tally = Tally()
        self._known = set(memory.known)
        self._keep = memory.keep
        for name, body in memory.known.items():
            self._note(_arm_in(name), ModelOutcome(**body))

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """The rules by name. Listed on first use, so that stored results can be counted without starting the
        compiler."""
        return {rule.name: rule for rule in self._auditee.rules(self._checker.pool)}

    def run(self) -> Iterator[GuiltyRule]:
        """Yield each rule that breaks a model, until everything was tried or the budget is spent."""
        self._begun = time.monotonic()
        self._deadline = self._begun + self._plan.budget
        wanted = [rule for rule in self.rules.values() if self._plan.only(rule)]
        targets = self._auditee.surveyed([rule for rule in wanted if not rule.unreachable])
        yield from self._try_idioms(targets)
        if not self._plan.idioms and any(self._unfired(wanted)):
            others = [(arm, 0) for arm in self._models.others()]
            yield from self._pass(self._auditee.target(), others, "programs of the generators", SHARE_OF_PLAIN)
        yield from self._change(targets)

    def _try_idioms(self, targets: Sequence[Target]) -> Iterator[GuiltyRule]:
        arms = list(self._plan.idioms or self._models.idioms())
        self._rng.shuffle(arms)  # some take long: when time is short, it is spread over all kinds
        idioms = [(arm, number) for number in range(self._auditee.ways) for arm in arms]
        for target in targets:
            default = target == self._auditee.target()
            some = [pair for pair in idioms if default or pair[1] in (0, self._auditee.ways - 1)]
            yield from self._pass(target, some, f"idioms on {target}", SHARE_OF_IDIOMS)

    def _change(self, targets: Sequence[Target]) -> Iterator[GuiltyRule]:
        for number in range(self._plan.rounds):
            if time.monotonic() > self._deadline or not any(self._firing.values()):
                return
            for target in targets:  # the same changes in every round, made in other places
                made = [(arm, number) for base in self._bases(targets, target) for arm in self._models.changed(base)]
                self._rng.shuffle(made)
                yield from self._pass(target, made, f"changed on {target}, round {number + 1}")

    def _unfired(self, rules: Sequence[Rule]) -> Iterator[Rule]:
        return (rule for rule in rules if not rule.unreachable and self.tally.reach.get(rule.name) is not Reach.FIRED)

    def _bases(self, targets: Sequence[Target], target: Target) -> list[str]:
        """Return models that fire an audited rule: all idioms, and a few of the other programs."""
        found: dict[str, None] = {}
        for name, bases in self._firing.items():
            rule = self.rules.get(name)
            if rule and self._plan.only(rule) and (len(targets) == 1 or self._auditee.target(rule) == target):
                written = [base for base in bases if ":" not in base]
                found |= dict.fromkeys(written + [base for base in bases if ":" in base][: max(0, 4 - len(written))])
        return list(found)

    def _pass(
        self, target: Target, wanted: Sequence[tuple[str, int]], words: str, share: float = 1.0
    ) -> Iterator[GuiltyRule]:
        """Survey the models that were not surveyed before, until this share of the budget is spent, and yield guilty
        rules."""
        wanted = [pair for pair in wanted if _name(target, *pair) not in self._known]
        end = self._begun + share * self._plan.budget
        done = 0
        fired_before = [Counter(self._fired)] * LAG  # by the number of the batch

        def asked(numbered: tuple[int, _Batch]) -> tuple[_Batch, list[Made], list[SurveySeen]]:
            number, batch = numbered
            models = self._models.make(batch)
            return batch, models, self._auditee.ask(self._checker.pool, target, models, fired_before[number])

        batches = itertools.takewhile(lambda _: time.monotonic() <= end, growing(wanted, self._auditee.batch))
        for batch, models, answers in ahead(asked, enumerate(batches), min(LAG, self._checker.jobs)):
            self.tally.models += len(models)
            fired = len(self.tally.fired())
            done += len(batch)
            self._tell(f"{words}: {done} of {len(wanted)}, {fired} of {len(self.rules)} rules fired")
            outcomes = {_name(target, *pair): ModelOutcome() for pair in batch}  # even if the model was not made
            suspicious = []
            for made, answer in zip(models, answers, strict=True):
                outcome = ModelOutcome(list(answer.matched), list(answer.fired))
                if answer.differing or answer.crash:
                    suspicious.append((made, answer, outcome))
                    del outcomes[_name(target, made.arm, made.number)]
                else:
                    outcomes[_name(target, made.arm, made.number)] = outcome
                    self._note(made.arm, outcome)
            self._keep({name: asdict(outcome) for name, outcome in outcomes.items()})
            for made, answer, outcome in suspicious:  # each may take a while, and is kept by itself
                yield from self._judge(target, made, answer, outcome)
                self._note(made.arm, outcome)
                self._keep({_name(target, made.arm, made.number): asdict(outcome)})
            fired_before.append(Counter(self._fired))

    def _note(self, arm: str, outcome: ModelOutcome) -> None:
        base, _, change = arm.partition("~")
        for name in outcome.matched:
            self.tally.raise_to(name, Reach.MATCHED)
        self._fired.update(outcome.fired)
        for name in outcome.fired:
            self.tally.raise_to(name, Reach.FIRED)
            if not change:
                self._firing[name][base] = None
        self._done.update((name, change) for name in outcome.broken)
        self._done.update((name, base) for name in outcome.unchanged)
        self._plainly |= outcome.unchanged.items()
        self._judged.update((name, change) for name in outcome.sound)

    def _judge(self, asked: Target, made: Made, answer: SurveySeen, outcome: ModelOutcome) -> Iterator[GuiltyRule]:
        """Check a model whose results differ, on the targets that its rules need. Rules that need no further check are
        still considered as causes, so that a rule that merely enabled them is not blamed."""
        groups: dict[Target, list[str]] = {asked: []} if answer.crash else {}
        for name in answer.differing:
            if name in self.rules:
                groups.setdefault(self._auditee.target(self.rules[name]), []).append(name)
        for target, names in groups.items():
            if not names or any(self._worth(name, made) for name in names):
                yield from self._check(target, made, names, outcome)

    def _check(self, target: Target, made: Made, names: Sequence[str], outcome: ModelOutcome) -> Iterator[GuiltyRule]:
        self.tally.suspects += 1
        failure = self._failure(target, made)
        if failure is None or failure.result.verdict.kind in _OF_THE_MACHINE:
            self.tally.sound += failure is None
            self.tally.unattributed += failure is not None
            outcome.sound += names
            return
        accused = names or [name for name, rule in self.rules.items() if not rule.unreachable]
        guilty = self._guilty(accused, failure)
        if not guilty:
            self.tally.unattributed += 1
        outcome.sound += [name for name in names if name not in guilty]
        for name in guilty:
            if self._worth(name, made):
                yield from self._blame(name, made, failure, outcome)

    def _failure(self, target: Target, made: Made) -> AuditFailure | None:
        """Run the ordinary check. Returns None if the model passes or fails only sometimes."""
        case = case_of(made.answer, target, self._options)
        checked = self._checker.check(case)
        result = checked.results[0] if checked.results else None
        if result and result.internal_error:
            raise InternalError(result.internal_error)
        if result is None or result.verdict.judgement is not Judgement.FAIL or result.flaky:
            return None
        return AuditFailure(case, result, checked.reference)

    def _blame(self, name: str, made: Made, failure: AuditFailure, outcome: ModelOutcome) -> Iterator[GuiltyRule]:
        """Yield the rule as guilty, unless its failure on the unchanged model is already known."""
        rule = self.rules[name]
        without = self._auditee.without(failure.case.targets[0], rule)
        if without is None or not self._auditee.convincing(rule, failure.result.verdict):
            self.tally.unattributed += 1
            outcome.sound.append(name)
            return
        plain = self._unchanged(made, name, failure) if made.change else failure
        if plain is None:
            outcome.broken.append(name)
            yield GuiltyRule(rule, made.change, failure, made.base, without)
            return
        outcome.unchanged[name] = failure.kind
        if (name, failure.kind) not in self._plainly:
            yield GuiltyRule(rule, "", plain, made.base, without)

    def _unchanged(self, made: Made, name: str, failure: AuditFailure) -> AuditFailure | None:
        """Return the same failure on the model before the change, if it occurs there too: then the inputs caused it and
        not the change."""
        for base in self._models.make([(made.base, made.number)]):
            case = case_of(base.answer, failure.case.targets[0], self._options)
            if case.program.inputs != failure.case.program.inputs:
                continue
            case = replace(case, samples=failure.case.samples)
            checked = self._checker.check(case)
            for result in checked.results:
                plain = AuditFailure(case, result, checked.reference)
                failed = result.verdict.judgement is Judgement.FAIL and plain.kind == failure.kind
                if failed and self._judgement(self._auditee.without, name, plain) is Judgement.PASS:
                    return plain
        return None

    def _worth(self, name: str, made: Made) -> bool:
        """True if the rule should still be checked for this change: it has no finding yet, neither with the change nor
        without, and was not found sound several times."""
        rule, pair = self.rules[name], (name, made.change)
        if not self._plan.only(rule) or not self._auditee.exact(rule):
            return False
        return not {pair, (name, made.base)} & self._done and self._judged[pair] < PASSES

    def _guilty(self, names: Iterable[str], failure: AuditFailure) -> list[str]:
        """Return the rules without which the model passes. If there are several: those that break it alone, or else the
        last, since the earlier ones only prepared the model for it."""
        names = list(names)
        without = ahead(lambda name: self._judgement(self._auditee.without, name, failure), names, self._checker.jobs)
        cures = [name for name, judged in zip(names, without, strict=True) if judged is Judgement.PASS]
        if len(cures) < 2:
            return cures
        by_itself = ahead(lambda name: self._judgement(self._auditee.alone, name, failure), cures, self._checker.jobs)
        alone = [name for name, judged in zip(cures, by_itself, strict=True) if judged is Judgement.FAIL]
        return alone or cures[-1:]

    def _judgement(
        self, changed: Callable[[Target, Rule], Target | None], name: str, failure: AuditFailure
    ) -> Judgement | None:
        target = changed(failure.case.targets[0], self.rules[name])
        if target is None or time.monotonic() > self._deadline + min(GRACE, self._plan.budget / 10):
            return None
        outcome = self._checker.check(replace(failure.case, targets=(target,)), known_reference=failure.reference)
        return outcome.results[0].verdict.judgement if outcome.results else None


def _name(target: Target, arm: str, number: int) -> str:
    """Return the name under which the result of a model is stored."""
    return f"{target} {number} {arm}"


def _arm_in(name: str) -> str:
    return name.split(" ", 2)[2]
