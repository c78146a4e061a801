"""Find suspects: programs on which a rule fires and whose results the passes seem to change. `check` decides later.

A mutant is run without the compiler and after all passes. If the results differ, or only the compiler fails, the
program is compiled again with the rule forbidden: the rules whose absence removes the difference are blamed.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

import torch

from driftline.backends.inductor_rules.registry import find
from driftline.patterns.inductor.compare import GraphDifference, coarsest_dtype, difference
from driftline.patterns.inductor.draft import Draft, live
from driftline.patterns.inductor.fire import draft_of
from driftline.patterns.inductor.perturb import Mutant, modes, mutants
from driftline.patterns.inductor.pipeline import Passed, results, run_passes
from driftline.patterns.inductor.placing import end_if_lost
from driftline.patterns.inductor.requests import RuleSuspect
from driftline.patterns.inductor.sweep import draft_outside
from driftline.programs.torch_names import Unwritable

UNJUDGED = 6  # programs for each rule whose graph only code generation can run
_OPEN_OF_ONE_IDEA = 2
_SOUND = 4  # programs with the same thing changed at the same place that come out right
_IDLE = 2  # and on which the rule does nothing
_NOT_FOR_PEOPLE = re.compile(r"torch\.(ops\.|_|(mkldnn|cudnn|miopen|fbgemm|native|quantized)_)")
_RUNS_OUT = 8  # rules that are forbidden one after another in search of the guilty one


def suspects(
    rule_id: str, attempt: int, seed: int, deadline: float, made_for: str = "", *, only: str = ""
) -> Iterator[RuleSuspect]:
    """Change what the rule leaves unconstrained until the deadline (of `time.monotonic`), and yield at most one suspect
    for each kind of change. `only` restricts the search to one kind. `made_for` is the rule that the program was built
    for, if another."""
    search = _Search(rule_id)
    source = mutants(_draft(made_for or rule_id, attempt), seed)
    mutant = next(source, None)
    while mutant and time.monotonic() < deadline:
        used, found = search.look_at(mutant) if only in ("", mutant.label) else (False, None)
        if found:
            yield found
        try:
            mutant = source.send(used)
        except StopIteration:
            return


def _draft(rule_id: str, attempt: int) -> Draft:
    return draft_outside(rule_id) if "/" in rule_id else draft_of(find(rule_id), attempt)


class _Search:
    """The search for suspects of one rule. Remembers what was tried, so that nothing is tried twice."""

    def __init__(self, rule_id: str) -> None:
        self._rule = rule_id
        self._texts: set[str] = set()
        self._settled: set[str] = set()  # changes that need no more programs
        self._idle: Counter[str] = Counter()  # programs of a change on which the rule did nothing
        self._sound: Counter[str] = Counter()
        self._before: str | None = None  # how the program fails with nothing changed
        self._open: Counter[str] = Counter()  # programs that only real code can judge, by idea

    def look_at(self, mutant: Mutant) -> tuple[bool, RuleSuspect | None]:
        """Compile and judge a mutant. Returns whether it was of use, and the suspect if there is one."""
        text = _text(mutant.draft)
        key = f"{text} {mutant.dynamic} {mutant.draft.training}"
        if not text or key in self._texts or {mutant.label, mutant.spot} & self._settled:
            return False, None
        self._texts.add(key)
        trial = _MutantTrial(text, mutant)
        if not trial.runs:
            return False, None
        passed = trial.compile()
        fired = self._rule in passed.rewrites
        if fired and passed.outputs is None and not passed.error:
            return True, self._leave_open(trial, mutant)
        wrong = trial.judge(passed)
        if wrong is None:
            self._count(mutant.spot, fired)
            return True, None
        self._settled.add(mutant.spot)
        if mutant.label == modes.UNCHANGED:
            self._before = wrong.kind
        elif wrong.kind == self._before:
            self._settled.add(mutant.label)
            return True, None  # the change has nothing to do with it
        guilty = trial.guilty(self._rule, passed)
        if wrong.kind == "error" and not guilty and self._rule not in passed.activity:
            return True, None  # rejected before any rule ran, so no rule is to blame
        self._settled.add(mutant.label)
        return True, trial.suspect(self._rule, wrong, guilty)

    def _count(self, spot: str, fired: bool) -> None:
        counter, enough = (self._sound, _SOUND) if fired else (self._idle, _IDLE)
        counter[spot] += 1
        if counter[spot] == enough:
            self._settled.add(spot)

    def _leave_open(self, trial: _MutantTrial, mutant: Mutant) -> RuleSuspect | None:
        """Return a suspect that only real code can judge. This takes seconds, so only a few programs are allowed for
        each kind of change, and none that differ only in their numbers."""
        self._settled.add(mutant.spot)
        idea = mutant.label.partition(" ")[0]
        if self._open[idea] == _OPEN_OF_ONE_IDEA or self._open.total() == UNJUDGED or mutant.only_numbers:
            return None
        self._open[idea] += 1
        return trial.suspect(self._rule, GraphDifference("unjudged", ""), (self._rule,))


def _text(draft: Draft) -> str:
    try:
        return draft.text()
    except (Unwritable, KeyError):
        return ""


class _MutantTrial:
    """A mutant and its results without a compiler."""

    def __init__(self, text: str, mutant: Mutant) -> None:
        self.text = text
        self._mutant = mutant
        self._needs = dict(mutant.draft.needs)
        expected = self._eager(1)
        self.runs = expected is not None
        self._expected = expected or []
        self._coarsest = coarsest_dtype(text, self._expected)

    def _eager(self, seed: int) -> list[torch.Tensor] | None:
        try:
            model, inputs = live(self.text)
            torch.manual_seed(seed)
            return results(model, inputs, training=self._mutant.draft.training)
        except Exception:  # made-up code may raise anything; a mutant that does not run is no program
            end_if_lost()
            return None

    def compile(self, forbidden: frozenset[str] = frozenset()) -> Passed:
        draft, dynamic = self._mutant.draft, self._mutant.dynamic
        return run_passes(self.text, self._needs, training=draft.training, dynamic=dynamic, forbidden=forbidden)

    def judge(self, passed: Passed) -> GraphDifference | None:
        if passed.error:
            return GraphDifference("error", _plain(passed.error))
        if passed.outputs is None:
            return None
        found = difference(self._expected, passed.outputs, self._coarsest)
        return None if found and found.kind == "wrong" and self._random else found

    @cached_property
    def _random(self) -> bool:
        """True if the results depend on the random generator. They cannot be compared, since compilers draw other
        numbers."""
        again = self._eager(2)
        return again is None or difference(self._expected, again, torch.float64) is not None

    def guilty(self, rule_id: str, passed: Passed) -> tuple[str, ...]:
        """Return the rules without which the program is right: preferably the rule in question, else one of the others;
        empty if there are none."""
        others = [rule for rule, activity in passed.activity.items() if activity.changed or activity.error]
        others.sort(key=lambda rule: (not passed.activity[rule].error, "/" in rule, rule.startswith("decomposition")))
        for rule in dict.fromkeys((rule_id, *others[:_RUNS_OUT])):
            if rule in passed.activity and (blamed := self._right_without(rule, passed)):
                return blamed
        return ()

    def _right_without(self, rule: str, before: Passed) -> tuple[str, ...]:
        """Return the rule and the rules that replace it when it is forbidden, if forbidding them all makes the program
        right; else empty."""
        forbidden = frozenset({rule})
        while True:
            passed = self.compile(forbidden)
            if self._is_right(passed, before):
                others = forbidden - {rule}  # perhaps the rule only made way for these
                enough = others and self._is_right(self.compile(others), before)
                return tuple(sorted(others if enough else forbidden))
            stepped_in = _busy(passed) - _busy(before)
            if not stepped_in or len(forbidden) > _RUNS_OUT:
                return ()
            forbidden |= stepped_in

    def _is_right(self, passed: Passed, before: Passed) -> bool:
        ran = passed.outputs is not None or before.error  # a graph that cannot be run proves nothing about its numbers
        return bool(ran) and self.judge(passed) is None

    def suspect(self, rule_id: str, wrong: GraphDifference, guilty: tuple[str, ...]) -> RuleSuspect:
        draft = self._mutant.draft
        reachable = draft.user_level and not _NOT_FOR_PEOPLE.search(self.text)
        return RuleSuspect(
            rule_id, self._mutant.label, self.text, self._needs, draft.training, self._mutant.dynamic,
            wrong.kind, wrong.detail, reachable, guilty,
        )  # fmt: skip


def _busy(passed: Passed) -> frozenset[str]:
    """Return the rules of the tables that changed the graph or failed to."""
    return frozenset(
        r for r, activity in passed.activity.items() if (activity.changed or activity.error) and "/" not in r
    )


def _plain(error: str) -> str:
    """Return the error message without the parts that differ from run to run."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    told = lines[1] if len(lines) > 1 and lines[0].endswith("raised:") else lines[0]
    return re.sub(r"0x[0-9a-f]+|\d+", "N", told)[:200]
