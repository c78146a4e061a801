"""The audit of TorchInductor: make every rule fire, change what it leaves unconstrained, check what looks wrong.

Runs in the parent; workers do everything that needs torch. Firing comes first, with one program for each rule. Then
rules are perturbed, those of different optimisations first. A suspect of a new family is checked before the next rule;
similar suspects are checked if there is time left.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from driftline.backends import BACKENDS
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.kinds import worker_for_target
from driftline.checking.open import open_source
from driftline.core.answers import releases, remembered, surroundings
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.program import SourceBundle
from driftline.core.rule import Reach, Rule
from driftline.core.target import Target
from driftline.core.task import Task
from driftline.core.verdict import Judgement
from driftline.core.wire import decode, encode
from driftline.execute.limits import STARTS
from driftline.execute.pool import PoolExpired, WorkerKind, WorkerStartError
from driftline.patterns.agenda import Agenda, AgendaItem, growing, spread
from driftline.patterns.found import Found
from driftline.patterns.inductor.requests import (
    ANSWERS,
    FIRE,
    LIST_OUTSIDE,
    LIST_RULES,
    SUSPECT,
    SWEEP,
    WARM,
    FireRequest,
    Firing,
    FiringProgram,
    ListOutsideRequest,
    ListRulesRequest,
    ManyRequest,
    OutsideRules,
    QuestionAsked,
    QuestionDone,
    QuestionMistaken,
    RuleAnswer,
    RuleSuspect,
    SuspectRequest,
    SweepRequest,
    Swept,
    Written,
    read_lines,
)
from driftline.report.scripts.render import short_script

ATTEMPTS = 40  # programs tried for a rule at most
SECONDS_TO_FIRE = 12.0  # for one rule
BATCH = 8  # rules in one job
SHARE_OF_FIRING = 0.45  # of the budget
ENTRY = "program.py"
CPU = "cpu"

Many = TypeVar("Many", bound=ManyRequest)


def worker_kind(python: str = sys.executable, device: str = CPU) -> WorkerKind:
    if device == CPU:
        # PyTorch's operator tests look for a GPU when they are imported, and a forked process must not open one.
        return WorkerKind("inductor-rules", python, ((WARM, None),), variables=(("CUDA_VISIBLE_DEVICES", ""),))
    target = Target("inductor", options=(("device", device),))
    on_device = worker_for_target(BACKENDS.get("inductor"), target, ())  # awake before the sandbox closes
    return replace(on_device, name="inductor-rules", warm=((WARM, None), *on_device.warm))


@dataclass
class RuleProgress:
    """How far one rule came, and the program that it reached this with."""

    rule: Rule
    reach: Reach = Reach.NONE
    reason: str = ""
    text: str = ""
    needs: Mapping[str, str] = field(default_factory=dict)
    training: bool = False
    attempt: int = 0
    source: str = ""  # the rule that the program was made for, when it is another one

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "rule"}

    def take(self, firing: Firing) -> None:
        """Store the program of a firing as the rule's program."""
        self.text, self.needs, self.training = firing.text, dict(firing.needs), firing.training
        self.attempt = firing.attempt or 0


class Perturbed(NamedTuple):
    """A rule that was perturbed, and the suspects that were found."""

    rule: str
    suspects: list[RuleSuspect]


class Settled(NamedTuple):
    """A suspect that was checked, and the confirmed failure if there is one."""

    suspect: RuleSuspect
    found: Found | None


class ProcessDied(NamedTuple):
    """A subject on which the worker died, and how it ended."""

    subject: str
    detail: str


class InductorAudit:
    """An audit of some of Inductor's rules."""

    def __init__(
        self, checker: Checker, rules: Sequence[Rule], *, seed: int = 0, jobs: int = 2, device: str = CPU
    ) -> None:
        """`device` is the device that the programs run on."""
        self.progress = {rule.id: RuleProgress(rule, reason=rule.unreachable) for rule in rules}
        self._checker = checker
        self._seed = seed
        self._jobs = jobs
        self._device = device
        self._lock = threading.Lock()
        self.internal_errors: list[str] = []

    def only(self, rules: Sequence[str]) -> InductorAudit:
        """Return an audit of some of these rules. It shares its progress and errors with this one."""
        part = InductorAudit(self._checker, [], seed=self._seed, jobs=self._jobs, device=self._device)
        part.progress = {rule: self.progress[rule] for rule in rules if rule in self.progress}
        part.internal_errors = self.internal_errors
        return part

    # -- firing ------------------------------------------------------------------------------------------------------

    def fire(self, deadline: float) -> Iterator[RuleProgress]:
        """Make rules fire, and yield the progress of each rule that came further."""
        waiting = [id_ for id_, one in self.progress.items() if not one.reason and one.reach is not Reach.FIRED]
        with ThreadPoolExecutor(self._jobs) as threads:
            futures = [threads.submit(self._fire_batch, batch, deadline) for batch in growing(waiting, BATCH)]
            try:
                for future in as_completed(futures):  # store results as soon as they are known
                    yield from future.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _fire_batch(self, batch: Sequence[str], deadline: float) -> list[RuleProgress]:
        with self._lock:
            batch = [rule for rule in batch if self.progress[rule].reach is not Reach.FIRED]
        if not batch or time.monotonic() > deadline:
            return []
        changed: list[RuleProgress] = []

        def request(subjects: tuple[str, ...], folder: Path) -> FireRequest:
            return FireRequest(subjects, folder, SECONDS_TO_FIRE, ATTEMPTS, self._device)

        with contextlib.suppress(PoolExpired):  # results until then count
            for answer in self._ask(FIRE, batch, request, deadline):
                with self._lock:
                    if isinstance(answer, ProcessDied):
                        one = self.progress[answer.subject]
                        one.reason = f"every program for it killed the process ({answer.detail})"
                        changed.append(one)
                    elif isinstance(answer, Firing):
                        changed += self._note_firing(answer)
        return changed

    def _note_firing(self, firing: Firing) -> Iterator[RuleProgress]:
        one = self.progress[firing.rule]
        one.reason = firing.reason
        if firing.reach.rank >= one.reach.rank:
            one.reach = firing.reach
            one.take(firing)
        yield one
        for other in firing.also:
            second = self.progress.get(other)
            if second and second.reach is not Reach.FIRED:
                second.reach, second.reason = Reach.FIRED, ""
                second.take(firing)
                second.source = one.rule.id
                yield second

    def sweep(self, subjects: Sequence[str], deadline: float) -> Iterator[str]:
        """Find which rewrites the programs of each subject trigger, and yield each finished subject. Used for rewrites
        without a pattern to build a program from: passes, decompositions, lowerings."""

        def request(subjects: tuple[str, ...], folder: Path) -> SweepRequest:
            return SweepRequest(subjects, folder, SECONDS_TO_FIRE, self._seed, self._device)

        def one(batch: Sequence[str]) -> list[Swept]:
            answers: list[Swept] = []
            with contextlib.suppress(PoolExpired):
                for answer in self._ask(SWEEP, batch, request, deadline):
                    answers += [answer] if isinstance(answer, Swept) else []
                    answers += [Swept(answer.subject)] if isinstance(answer, ProcessDied) else []
            return answers

        with ThreadPoolExecutor(self._jobs) as threads:
            for answers in threads.map(one, growing(subjects, BATCH)):
                for swept in answers:
                    for rule in swept.rewrites:
                        if seen := self.progress.get(rule):
                            seen.reach, seen.reason = Reach.FIRED, ""
                            seen.source = seen.source or swept.subject
                    yield swept.subject

    # -- perturbing --------------------------------------------------------------------------------------------------

    def perturb(
        self, deadline: float, done: Collection[str] = (), waiting: Sequence[RuleSuspect] = ()
    ) -> Iterator[Perturbed | Settled]:
        """Perturb the rules that fired, except those in `done`, and check the suspects found and those in `waiting`."""
        # A rule that matches and does not fire may fail on every match, which is a finding too.
        wanted = (Reach.FIRED, Reach.MATCHED)
        fired = [
            rule
            for rule, one in self.progress.items()
            if one.reach in wanted and (one.text or _has_own_program(rule)) and rule not in done
        ]
        work = Agenda(spread([self.progress[rule].rule for rule in fired]))
        for suspect in waiting:
            if one := self.progress.get(suspect.rule):
                work.add_suspect(suspect, one.rule)
        left = deadline - time.monotonic()
        each = max(4.0, min(left / 3, left * self._jobs * 0.6 / max(1, len(fired))))  # confirming takes longer
        results: list[Perturbed | Settled] = []
        ready = threading.Condition()
        failed: list[BaseException] = []
        running = self._jobs

        def serve() -> None:
            nonlocal running
            try:
                while time.monotonic() < deadline and not failed and (item := work.next()):
                    try:
                        for result in self._work_on(item, work, each, deadline):
                            with ready:
                                results.append(result)
                                ready.notify()
                    finally:
                        work.finished()
            except PoolExpired:  # it is not gone through, and not settled: the next run does it
                pass
            except BaseException as error:
                failed.append(error)
            finally:
                with ready:
                    running -= 1
                    ready.notify()

        threads = [threading.Thread(target=serve, daemon=True) for _ in range(self._jobs)]
        for thread in threads:
            thread.start()
        while True:
            with ready:
                ready.wait_for(lambda: results or not running)
                batch, results[:] = list(results), []
                over = not running
            yield from batch
            if over and not results:
                break
        if failed:
            raise failed[0]

    def _work_on(self, item: AgendaItem, work: Agenda, each: float, deadline: float) -> Iterator[Perturbed | Settled]:
        if not isinstance(item.body, str):
            yield Settled(item.body, self._confirm(item.body))
            return
        rule = item.body
        one = self.progress[rule]
        program = FiringProgram(one.attempt, "" if _has_own_program(rule) else one.source)

        def request(subjects: tuple[str, ...], folder: Path) -> SuspectRequest:
            return SuspectRequest(subjects, folder, each, self._seed, {rule: program}, self._device)

        answers = self._ask(SUSPECT, [rule], request, deadline)
        suspects = [answer for answer in answers if isinstance(answer, RuleSuspect)]  # all of them, or none
        yield Perturbed(rule, suspects)  # kept before any of them is checked
        for suspect in suspects:
            work.add_suspect(suspect, one.rule)

    def _confirm(self, suspect: RuleSuspect) -> Found | None:
        """Check the suspect's program in the way a user would run it. Returns the finding, or None if it passes."""
        rule = self._blamed(suspect)
        options = dict(suspect.needs)
        if suspect.dynamic:
            options["dynamic"] = "true"
        if self._device != CPU:
            options["device"] = self._device
        target = Target("inductor", options=tuple(sorted(options.items())))
        settings = CheckOptions(grad=suspect.training, seed=0, timeout=120)
        bundle = SourceBundle(ENTRY, "program", {ENTRY: suspect.text})
        try:
            opened = open_source(bundle, self._checker.pool, settings, name=f"{rule.name}: {suspect.mutation}")
        except DriftlineError:  # it runs here in one process and not in another: nothing that a user could rely on
            return None
        program = replace(opened.program, operators=(f"{rule.name}: {suspect.mutation}",))
        case = Case(program, (Inputs(opened.example, "example"),), (target,), settings)
        outcome = self._checker.check(case)
        if not outcome.results or outcome.results[0].verdict.judgement is not Judgement.FAIL:
            return None
        result = outcome.results[0]
        if result.internal_error:
            raise InternalError(result.internal_error)
        guilty, without = self._guilty(case, result, suspect)
        script = short_script(suspect.text, target, training=suspect.training)
        return Found(
            rule, suspect.mutation, case, result, outcome.reference, script, guilty, without, suspect.reachable
        )

    def _blamed(self, suspect: RuleSuspect) -> Rule:
        """Return the rule that was perturbed, or a rule to blame instead if it is not among the guilty."""
        name = suspect.rule
        if suspect.guilty and name not in suspect.guilty:
            name = next((other for other in suspect.guilty if other in self.progress), name)
        return self.progress[name].rule

    def _guilty(self, case: Case, result: TargetResult, suspect: RuleSuspect) -> tuple[tuple[str, ...], str]:
        """Check that the program passes with these rules forbidden. Returns the rules and that target, or empty values
        if not."""
        blamed = self._with_twins(suspect.guilty or [suspect.rule])
        target = Target("inductor", options=(*result.target.options, ("forbid", "+".join(sorted(blamed)))))
        outcome = self._checker.check(case.only(target))
        passed = any(each.verdict.judgement is Judgement.PASS for each in outcome.results)
        return (blamed, str(target)) if passed else ((), "")

    def _with_twins(self, rules: Sequence[str]) -> tuple[str, ...]:
        """Return the rules and all rules of the same optimisation, since one often replaces the other."""
        names = {self.progress[rule].rule.optimisation for rule in rules if rule in self.progress}
        twins = [rule for rule, one in self.progress.items() if one.rule.optimisation in names]
        return tuple(sorted({*rules, *twins}))

    # -- asking workers ----------------------------------------------------------------------------------------------

    def _ask(
        self,
        task: Task[Many, Written],
        subjects: Sequence[str],
        request_for: Callable[[tuple[str, ...], Path], Many],
        deadline: float,
    ) -> Iterator[RuleAnswer | ProcessDied]:
        """Yield the answers of a task for each subject. A subject that kills the worker is reported as `ProcessDied`,
        and the others continue. Raises `PoolExpired`, after the answers so far, when the time is over."""
        pending = list(subjects)
        pool = self._checker.pool
        lost = 0
        while pending and time.monotonic() < deadline:
            folder = pool.workspace.job_folder()
            request = request_for(tuple(pending), folder)
            report, expired = None, None
            try:
                report = pool.run(worker_kind(device=self._device), task, request, timeout=request.seconds_each + 60)
            except PoolExpired as error:
                expired = error
            lines = read_lines(folder / ANSWERS)
            self.internal_errors += [line.traceback for line in lines if isinstance(line, QuestionMistaken)]
            yield from (line for line in lines if isinstance(line, RuleAnswer))
            if report is None:
                raise expired or InternalError("a job without an ending")
            if report.ending == "done":
                return
            done, asked = _progress(lines)
            if asked is None:
                lost += 1
                if lost < STARTS:
                    continue
                raise WorkerStartError(
                    f"inductor: the process for rewrite rules ended before its first task ({report.detail}),"
                    f" {STARTS} times in a row. Look for what kills it (a shortage of memory, perhaps), and start again"
                )
            yield ProcessDied(asked, report.detail or report.ending)
            pending = [subject for subject in pending if subject not in done and subject != asked]


def _progress(lines: Sequence[object]) -> tuple[set[str], str | None]:
    """Return the subjects that a worker finished, and the one that it was working on, if any."""
    done = {line.subject for line in lines if isinstance(line, QuestionDone)}
    asked = [line.subject for line in lines if isinstance(line, QuestionAsked) and line.subject not in done]
    return done, asked[-1] if asked else None


def list_rules(checker: Checker, python: str = sys.executable, device: str = CPU) -> tuple[str, list[Rule]]:
    """Return the version of torch in an interpreter, and its rules. Which of them can fire depends on the device."""
    listed = checker.pool.ask(worker_kind(python, device), LIST_RULES, ListRulesRequest())
    return listed.version, list(listed.rules)


def _has_own_program(rule: str) -> bool:
    """True for rules outside the tables, whose programs are written by hand; a sweep only shows that they are
    active."""
    return "/" in rule


def list_outside(checker: Checker) -> tuple[list[Rule], list[str]]:
    """Return the rewrites outside the pattern tables, and the subjects to sweep for them."""

    def ask() -> dict[str, Any]:
        answer = checker.pool.ask(worker_kind(), LIST_OUTSIDE, ListOutsideRequest())
        return dict(encode(OutsideRules, answer))

    told = decode(OutsideRules, remembered("outside", [surroundings(), releases(("torch",))], ask).value)
    return list(told.rules), list(told.subjects)
