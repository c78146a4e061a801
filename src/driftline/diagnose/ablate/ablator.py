"""Run an ablation: list the knobs, find sets of knobs that make the case pass, and confirm them in a fresh process.

Knobs with names are tried first, the most specific kind before the others: a rewrite rule says more than the pass that
applies it, and a pass more than an option. Once one kind cures the case, broader kinds are not tried; single options
always are. If a program stays slow whatever is switched off, the settings that control how loops are made are tried
too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from driftline.backends import resolve
from driftline.backends.base import Backend
from driftline.backends.knobs import Knob, turned
from driftline.checking.checker import Checker
from driftline.checking.convert import Conversions
from driftline.checking.kinds import worker_for_target
from driftline.checking.written import write_case
from driftline.core.announce import Announce
from driftline.core.case import Case
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.diagnose.ablate.cures import smallest_cure
from driftline.diagnose.ablate.tasks import AT_WORK
from driftline.diagnose.reduce.reducer import not_now
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer, Reply
from driftline.diagnose.trials import WRONG_RESULTS, TargetTrials, TrialWords
from driftline.execute.pool import PoolExpired, WorkerStartError
from driftline.execute.requests import RunRequest
from driftline.programs.convert import accepts_directly, find_converter

# The sharpest first; kinds that a backend of somebody else's names come after these.
_SHARPNESS = ("rewrite rule", "optimiser", "no-op removal", "fusion", "pass", "decomposition", "lowering")
_NO_CURE = "nothing that can be switched off {cure}: it lies in what the compiler always does"
_NONE_AT_WORK = "no rule or pass that can be left out was seen at work on this program"
_NO_KNOBS = "nothing of this compiler can be switched off by an option that is known here"
SUBSTITUTED = "rewrite rule"  # the kind of knobs that may replace each other


@dataclass(frozen=True)
class Cure:
    """Knobs that make the case pass if all of them are switched off, but not if one of them is left on."""

    knobs: tuple[Knob, ...]
    target: Target
    confirmed: bool  # in fresh processes: it fails without the cure and passes with it
    reason: str  # the verdict's reason with the cure
    words: TrialWords = WRONG_RESULTS

    @property
    def title(self) -> str:
        return " + ".join(knob.name for knob in self.knobs)

    @property
    def sentence(self) -> str:
        left_out = [knob.name if knob.listed else knob.option for knob in self.knobs if knob.listed or not knob.value]
        plainer = [knob.name for knob in self.knobs if not knob.listed and knob.value]
        parts = [f"{word} {', '.join(names)}" for word, names in (("without", left_out), ("with", plainer)) if names]
        return f"It {self.words.gone} {' and '.join(parts)}."


@dataclass(frozen=True)
class Ablation:
    """The result of an ablation: what a failure depends on."""

    target: Target
    cures: tuple[Cure, ...]
    harmless: tuple[Knob, ...]  # settings that change nothing, alone or together
    unclear: tuple[tuple[Knob, str], ...]  # settings under which it ends in another way
    at_work: tuple[Knob, ...]  # names that did something to the program
    note: str
    queries: int
    seconds: float
    internal_errors: tuple[str, ...] = ()


def ablate_case(
    checker: Checker,
    case: Case,
    trials: TargetTrials,
    *,
    budget: float,
    listener: Announce = lambda words: None,
) -> Ablation:
    """Find what the case needs to fail, or to be slow, as `trials` decides. The case must have one target. Raise
    `DoesNotFail` if it does not fail now.
    """
    return _AblationRun(checker, case, trials, budget, listener).run()


class _AblationRun:
    def __init__(self, checker: Checker, case: Case, trials: TargetTrials, budget: float, listener: Announce) -> None:
        self._checker = checker
        self._case = case
        self._target = case.targets[0]
        self._trials = trials
        self._listener = listener
        self._began = time.monotonic()
        self._deadline = self._began + budget
        self._known: dict[Target, Reply] = {}
        self._cures: list[Cure] = []
        self._harmless: list[Knob] = []
        self._unclear: list[tuple[Knob, str]] = []

    def run(self) -> Ablation:
        reply = self._trials.ask(self._target, fresh=True)
        if reply.answer is not CandidateAnswer.SAME:
            raise not_now(self._case, self._target, reply, self._trials.words, "ablated")
        note = ""
        known = resolve(self._target).knobs(dict(self._target.options))
        at_work = self._at_work(self._target)
        names = [*(knob for knob in known if knob.listed), *at_work]
        try:
            self._ablate_names(names)
            self._ablate_settings([knob for knob in known if not knob.listed])
            if self._trials.words.measured and not self._cures:
                self._ablate_loops()
        except (BudgetEnded, PoolExpired):
            note = "the budget ended before everything was asked"
        if not self._cures and not note:
            note = _NO_CURE.format(cure=self._trials.words.cure) if known or at_work else self._without_knobs()
        return Ablation(
            self._target,
            tuple(self._cures),
            tuple(self._harmless),
            tuple(self._unclear),
            tuple(at_work),
            note,
            len(self._known) + 1,
            time.monotonic() - self._began,
            tuple(self._trials.internal_errors),
        )

    def _without_knobs(self) -> str:
        """Say why there were no knobs: no rule or pass was seen at work, or the compiler cannot name any."""
        names_them = type(resolve(self._target)).knobs_at_work is not Backend.knobs_at_work
        return _NONE_AT_WORK if names_them else _NO_KNOBS

    def _ask(self, knobs: Sequence[Knob]) -> CandidateAnswer:
        return self._reply(knobs).answer

    def _reply(self, knobs: Sequence[Knob]) -> Reply:
        target = turned(self._target, knobs)
        if target not in self._known:
            if time.monotonic() > self._deadline:
                raise BudgetEnded
            self._known[target] = self._trials.ask(target)
            self._listener(f"{len(self._known)} asked: {first_line(str(target), 80)}")
        return self._known[target]

    # -- names -------------------------------------------------------------------------------------------------------

    def _ablate_names(self, names: Sequence[Knob]) -> None:
        by_kind = sorted(names, key=_sharpness)
        for _, kind in groupby(by_kind, key=_sharpness):
            if cure := smallest_cure(self._with_substitutes(list(kind)), self._ask):
                self._add(cure)
                return
        if len({knob.kind for knob in by_kind}) > 1 and (cure := smallest_cure(by_kind, self._ask)):
            self._add(cure)

    def _with_substitutes(self, knobs: list[Knob]) -> list[Knob]:
        """Extend the knobs by rules that come into effect once the given rules are forbidden, since they may do the
        same.
        """
        while knobs[0].kind == SUBSTITUTED and self._ask(knobs) is CandidateAnswer.SAME:
            others = [knob for knob in self._at_work(turned(self._target, knobs)) if knob.kind == SUBSTITUTED]
            new = [knob for knob in others if knob not in knobs]
            if not new:
                break
            knobs = [*knobs, *new]
        return knobs

    def _at_work(self, target: Target) -> list[Knob]:
        """Return the rules and passes that change the program on a target. The worker runs in a process of its own,
        since it may die of the failure; then the list is empty.
        """
        program = self._as_given()
        if program is None:
            return []
        options = self._case.options
        files = write_case(self._checker.pool.workspace, self._case, program)
        request = RunRequest(files, target.backend, resolve(target).told(target.told))
        worker = worker_for_target(resolve(target), target, options.plugins)
        try:
            report = self._checker.pool.run(worker, AT_WORK, request, timeout=options.timeout, fresh=True)
        except WorkerStartError:
            return []
        return list(report.answer.knobs) if report.answer else []

    def _as_given(self) -> Program | None:
        """Return the program in the form that the compiler is given, or None if it cannot be converted."""
        program, accepts = self._case.program, resolve(self._target).accepts
        if accepts_directly(program.form, program.framework, accepts):
            return program
        link = find_converter(program.form, program.framework, accepts)
        return Conversions(self._checker.pool).convert(self._case, link).program if link else None

    # -- settings ----------------------------------------------------------------------------------------------------

    def _ablate_settings(self, settings: Sequence[Knob]) -> None:
        """Try the settings: first all together, since if that changes nothing, no single one does. Then one by one,
        since each cure is a workaround of its own; several together only if no single one is enough.
        """
        taken_away = [knob for knob in settings if not knob.value]
        plainest = list({knob.option: knob for knob in reversed(settings) if knob.value}.values())
        if plainest and self._ask(plainest) is CandidateAnswer.SAME:
            self._harmless += plainest
            settings = taken_away
        cured = False
        for knob in settings:
            reply = self._reply([knob])
            if reply.answer is CandidateAnswer.PASS:
                self._add([knob])
                cured = True
            elif reply.answer is CandidateAnswer.SAME:
                self._harmless.append(knob)
            else:
                self._unclear.append((knob, reply.reason))
        if not cured and not self._cures and (cure := smallest_cure(plainest, self._ask)):
            self._add(cure)

    def _ablate_loops(self) -> None:
        """Try other ways of making loops, for a program that is slow whatever is switched off."""
        given = dict(self._target.options)
        others: dict[str, Knob] = {}
        for options in resolve(self._target).loop_settings():
            for option, value in options.items():
                if option not in given:
                    others.setdefault(option, Knob(option, value, about="how loops are made"))
        if others and (cure := smallest_cure(list(others.values()), self._ask)):
            self._add(cure)

    def _add(self, knobs: Sequence[Knob]) -> None:
        target = turned(self._target, knobs)
        passes = self._trials.ask(target, fresh=True)
        confirmed = passes.answer is CandidateAnswer.PASS
        self._cures.append(Cure(tuple(knobs), target, confirmed, passes.reason, self._trials.words))


def _sharpness(knob: Knob) -> tuple[int, str]:
    known = knob.kind in _SHARPNESS
    return (_SHARPNESS.index(knob.kind) if known else len(_SHARPNESS), knob.kind)


def to_json(found: Ablation) -> dict[str, Any]:
    return {
        "target": str(found.target),
        "cures": [
            {
                "title": cure.title,
                "sentence": cure.sentence,
                "knobs": [knob.to_json() for knob in cure.knobs],
                "target": str(cure.target),
                "confirmed": cure.confirmed,
                "reason": cure.reason,
            }
            for cure in found.cures
        ],
        "harmless": [knob.name for knob in found.harmless],
        "unclear": [{"name": knob.name, "reason": reason} for knob, reason in found.unclear],
        "at_work": [knob.name for knob in found.at_work],
        "note": found.note,
        "queries": found.queries,
        "seconds": round(found.seconds, 2),
    }
