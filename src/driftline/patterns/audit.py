"""Audit the rewrite rules of several compilers. Progress and findings are stored as soon as they are known, so that an
audit can resume."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS
from driftline.backends.tvm_passes import TENSOR_IR
from driftline.campaign.check.session import record
from driftline.checking.checker import Checker
from driftline.core.answers import releases, remembered, surroundings
from driftline.core.closing import FailedStep, closing_step
from driftline.core.errors import NOTHING_COMPARED, BackendUnavailable, DriftlineError
from driftline.core.plugins import approved
from driftline.core.rule import FUSION, NO_OP, NO_PASS, ONE_PASS, Reach, Rule
from driftline.core.target import Target
from driftline.core.text import did_you_mean
from driftline.core.wire import decode, encode
from driftline.events import AuditStarted, BugSeen, Listener, OutOfReach, Working, ignore, says
from driftline.execute.pool import Pool, PoolExpired, WorkerKind, WorkerStartError
from driftline.execute.requests import PROBE, ProbeRequest
from driftline.patterns.audit_settings import AuditSettings
from driftline.patterns.auditees import Auditee, auditee
from driftline.patterns.found import Found, Told
from driftline.patterns.inductor.requests import RuleSuspect
from driftline.patterns.inductor_audit import (
    CPU,
    SHARE_OF_FIRING,
    InductorAudit,
    Perturbed,
    RuleProgress,
    list_outside,
    list_rules,
    worker_kind,
)
from driftline.patterns.one_by_one import PassesOneByOne, compilers_with_passes
from driftline.patterns.onnx_audit import OnnxAudit, OnnxAuditPlan
from driftline.patterns.scheduled_passes import ScheduledPasses, ScheduledPlan
from driftline.patterns.step_memory import StepMemory
from driftline.store import Bug, Store
from driftline.store.audits import LISTED, REACHED, AuditEntry, AuditLog, AuditMemory

_ALSO_ASKED = ("torch", "onnx", "onnxscript", "onnxruntime")  # packages that a list of rules may be made with
COMPILERS = ("inductor", "onnxruntime", "tvm", "onnxscript")
PASSES = "inductor passes"  # Inductor's rewrites outside its pattern tables
_WEIGHTS = {"inductor": 8.0, PASSES: 2.0, "onnxruntime": 3.0, "tvm": 1.5}  # of the budget; 1 for the others
ALONE = "one by one"  # suffix of a compiler's name for passes that are tried alone
SCHEDULED = f"tvm {ALONE}"  # whose passes are tried on functions with schedule primitives too
SHARE_OF_PROGRAMS = 0.6  # of the time for these passes
SHARE_OF_SWEEPING = 0.6
_LEAST = 5.0  # seconds below which a step is not worth starting
LISTING = 30.0  # seconds that listing rules may take beyond a short budget, since compilers must start first
GRACE, SHARE_OF_GRACE = 10.0, 0.05  # seconds for running jobs after a step's deadline; at most this share of the budget


class NothingTried(DriftlineError):
    """The time ran out before the rules or passes were listed."""

    exit_code = NOTHING_COMPARED


@dataclass(frozen=True)
class AuditPlan:
    """The settings of an audit, with defaults filled in."""

    compilers: tuple[str, ...]
    only: str = ""
    seconds: float = 1800.0
    seed: int = 0
    passes: bool = False  # passes one at a time, instead of rules
    plugins: tuple[str, ...] = ()
    device: str = CPU  # where Inductor's rules are brought to fire


def resumed_plan(
    store: Store, *, seconds: float = 0.0, number: int = 0, passes: bool = False
) -> tuple[AuditEntry, AuditPlan]:
    """Return the entry and plan of the audit to resume: the one with the given number, or else the last unfinished one,
    or else (if `seconds` is given) the last one. The budget `seconds` counts from the start of that audit. `passes`
    selects tests of passes instead of audits of rules."""
    log = AuditLog(store)
    entries = [log.entry(number)] if number else log.entries()
    own = [one for one in entries if one and bool(one.plan.get("passes")) == passes]
    unfinished = [one for one in own if number or not one.finished]
    going = unfinished[-1] if unfinished else own[-1] if own and seconds else None
    if going is None:
        kind = "test of passes" if passes else "audit"
        raise DriftlineError(f"There is no unfinished {kind} in {store.path}; leave out --resume to start one.")
    if seconds and seconds <= going.seconds:
        raise DriftlineError(
            f"A budget of {seconds:.0f} s counts from the beginning of the audit, which has run for"
            f" {going.seconds:.0f} s already; give more than that."
        )
    plan = AuditPlan(**{**going.plan, "compilers": tuple(going.plan["compilers"])})
    plan = replace(plan, plugins=approved(plan.plugins, f"The test of passes in {store.path}"))
    return going, replace(plan, seconds=seconds) if seconds else plan


def planned_audit(store: Store, asked: AuditSettings, *, passes: bool) -> tuple[AuditPlan, AuditEntry | None]:
    """Return the plan of the audit, and the entry of the audit that it resumes (None for a new one)."""
    if asked.resume:
        going, plan = resumed_plan(store, seconds=asked.seconds or 0.0, number=asked.number, passes=passes)
        return plan, going
    usual = 600.0 if passes else 1800.0
    names, device = (asked.compilers, CPU) if passes else split_device(asked.compilers)
    plan = AuditPlan(
        chosen_compilers(names, passes=passes),
        asked.only,
        usual if asked.seconds is None else asked.seconds,
        asked.seed,
        passes=passes,
        plugins=tuple(str(Path(path).resolve()) for path in asked.plugins),
        device=device,
    )
    return plan, None


def chosen_compilers(names: Sequence[str] | None, *, passes: bool = False) -> tuple[str, ...]:
    """Return the compilers in `names`, or all available ones if `names` is None. A named compiler that is not available
    is an error."""
    what, states = ("passes", compilers_with_passes()) if passes else ("rules", available_compilers())
    if names is None:
        return tuple(name for name, reason in states.items() if not reason)
    for name in names:
        if name not in states:
            raise DriftlineError(
                f"--compilers {name}: its {what} cannot be listed.{did_you_mean(name, states)}"
                f" Those of {', '.join(states)} can."
            )
        if states[name]:
            raise BackendUnavailable(f"--compilers {name}: {states[name]}.")
    if not names:
        raise DriftlineError("An empty list was given; leave --compilers out to take all.")
    return tuple(names)


def split_device(names: Sequence[str] | None) -> tuple[list[str] | None, str]:
    """Return the compilers, and the device of Inductor's rules: `inductor:device=cuda` gives both."""
    if names is None:
        return None, CPU
    targets = [Target.parse(name) for name in names]
    for target in targets:
        known = ("device",) if target.backend == "inductor" else ()
        if target.version or [name for name, _ in target.options if name not in known]:
            raise DriftlineError(
                f"--compilers {target}: an audit takes compilers without options, and inductor with a device, as in"
                " inductor:device=cuda."
            )
    devices = {target.device for target in targets if target.backend == "inductor"}
    if len(devices) > 1:
        raise DriftlineError(
            "An audit is about one device; audit inductor and inductor:device=cuda one after the other."
        )
    return [target.backend for target in targets], devices.pop() if devices else CPU


def require_device(pool: Pool, device: str) -> None:
    """Raise BackendUnavailable if torch does not see the device on this machine."""
    if device == CPU:
        return
    # An ordinary worker has only torch to import, and knows of all but a GPU, which it cannot open.
    found = pool.ask(WorkerKind("probe torch"), PROBE, ProbeRequest("inductor"))
    if device not in found.devices and shutil.which("nvidia-smi"):
        found = pool.ask(worker_kind(device=device), PROBE, ProbeRequest("inductor"))
    if device not in found.devices:
        raise BackendUnavailable(
            f"inductor:device={device}: torch sees no such device here, only {', '.join(found.devices)}."
        )


@dataclass
class CompilerResult:
    """How far the rules of one compiler came in the audit."""

    version: str
    rules: list[RuleProgress]
    only_scheduled: tuple[str, ...] = ()  # passes that changed functions with schedule primitives, and no other program

    def counts(self) -> dict[str, Any]:
        """Return the numbers of rules that reached each step (a rule counts for all earlier steps too), and why others
        did not fire."""
        ranks = [one.reach.rank for one in self.rules]
        reasons = Counter(one.reason for one in self.rules if one.reach is not Reach.FIRED)
        fired = [one.rule.optimisation for one in self.rules if one.reach is Reach.FIRED]
        return {
            "total": len(self.rules),
            **{str(step): sum(rank >= step.rank for rank in ranks) for step in Reach if step is not Reach.NONE},
            "optimisations": {
                "total": len({one.rule.optimisation for one in self.rules}),
                "fired": len(set(fired)),
            },
            "unreachable": dict(reasons.most_common()),
        }


@dataclass
class AuditResult:
    """The results of an audit."""

    plan: AuditPlan
    seconds: float = 0.0
    compilers: dict[str, CompilerResult] = field(default_factory=dict)
    bugs: dict[str, tuple[Bug, Told]] = field(default_factory=dict)  # by id, with the first finding
    out_of_reach: list[Told] = field(default_factory=list)  # wrong, but on programs that ordinary code cannot write
    internal_errors: list[str] = field(default_factory=list)  # errors in Driftline itself
    cut: list[str] = field(default_factory=list)  # compilers whose time was spent before all was done
    failed_steps: list[FailedStep] = field(default_factory=list)


def available_compilers() -> dict[str, str]:
    """Return, for each compiler whose rules can be audited, why it is not available here; an empty string if it is."""
    found = {}
    for name in COMPILERS:
        state = BACKENDS.get(name).installed()
        found[name] = "" if state.available else state.reason
    return found


def rules_of(checker: Checker, compiler: str, device: str = CPU) -> tuple[str, list[Rule]]:
    """Return the version of a compiler and its rules; Inductor's rules are listed for `device`."""
    backend = BACKENDS.get(compiler)

    def ask() -> dict[str, Any]:
        if compiler == "inductor":
            version, rules = list_rules(checker, device=device)
        else:
            version, rules = backend.version(), auditee(compiler).rules(checker.pool)
        return {"version": version, "rules": [rule.to_json() for rule in rules]}

    # A plugin's module is not in the key of what is remembered; it does not change the rules of a compiler either.
    key = [surroundings(), releases((*backend.packages, *_ALSO_ASKED)), compiler, device]
    told = remembered("rules", key, ask).value
    return told["version"], [Rule.from_json(value) for value in told["rules"]]


def passes_of(checker: Checker, compiler: str, plugins: tuple[str, ...] = ()) -> tuple[str, list[Rule]]:
    """Return the version of a compiler and its passes. A pass that cannot be tried alone says why."""
    return BACKENDS.get(compiler).version(), PassesOneByOne(compiler, plugins).rules(checker.pool)


def all_rules_of(checker: Checker, compiler: str, device: str = CPU) -> dict[str, tuple[str, list[Rule]]]:
    """Like `rules_of`, by compiler name. Inductor's rewrites outside the pattern tables are included under the name
    `PASSES`."""
    version, rules = rules_of(checker, compiler, device)
    outside = {PASSES: (version, list_outside(checker)[0])} if compiler == "inductor" else {}
    return {compiler: (version, rules), **outside}


def chosen(rule: Rule, only: str) -> bool:
    """True if the pattern `only` is empty or matches the rule's id, name, group, compiler, or `compiler/group/name`."""
    names = (rule.id, rule.name, rule.group, rule.compiler, f"{rule.compiler}/{rule.group}/{rule.name}")
    return not only or any(fnmatchcase(name, only) for name in names)


class Audit:
    """Runs one audit, or resumes the unfinished one in `going`. Findings go into the store; the listener gets
    events."""

    def __init__(
        self,
        checker: Checker,
        store: Store,
        plan: AuditPlan,
        *,
        listener: Listener = ignore,
        going: AuditEntry | None = None,
        more_time: bool = False,
    ) -> None:
        """With `more_time`, compilers that ran out of time in the resumed audit are audited further."""
        self._checker = checker
        self._store = store
        self._entry = going or AuditLog(store).begin(asdict(plan))
        self._memory = AuditMemory(store, self._entry)
        self._listener = listener
        self._more_time = more_time
        self.result = AuditResult(plan)

    def run(self) -> AuditResult:
        """Audit the compilers one after the other, each for its share of the remaining time."""
        entry, plan = self._entry, self.result.plan
        self._listener(AuditStarted(entry.id, plan.compilers, plan.seconds, entry.seconds, entry.run))
        overall = time.monotonic() + plan.seconds - entry.seconds
        pool, unbound = self._checker.pool, self._checker.pool.deadline
        try:
            pool.deadline = min(unbound, max(overall, time.monotonic() + LISTING) + self._grace)
            listed = self._list_in_time()
            pool.deadline = min(unbound, overall + self._grace)
            self._audit(listed, overall)
        finally:
            pool.deadline = unbound
        return self.result

    def _list_in_time(self) -> dict[str, tuple[str, list[Rule]]]:
        plan = self.result.plan
        try:
            require_device(self._checker.pool, plan.device)
            return self._list()
        except PoolExpired as error:
            self._memory.close(finished=False)
            word = "passes" if plan.passes else "rules"
            raise NothingTried(
                f"The budget of {plan.seconds:.0f} s ended while the {word} were being listed; give more with --budget."
            ) from error
        except DriftlineError as error:  # the request itself is invalid, so there is nothing to resume later
            self._memory.close(finished=not isinstance(error, WorkerStartError))
            raise

    def _audit(self, listed: Mapping[str, tuple[str, list[Rule]]], overall: float) -> None:
        memory, plan, failed = self._memory, self.result.plan, self.result.failed_steps
        try:
            self._recall()
            ended = {name for name, body in memory.kept("ended").items() if not (self._more_time and body.get("cut"))}
            weights = {compiler: _WEIGHTS.get(compiler, 1.0) for compiler in listed if compiler not in ended}
            for compiler, (version, rules) in listed.items():
                run = partial(self._part(compiler), compiler, version, rules)
                if compiler in ended or time.monotonic() >= overall:
                    run(None)
                    if compiler not in ended:
                        self._note_end(compiler, cut=True)
                    continue
                share = (plan.seconds - memory.seconds) * weights[compiler] / sum(weights.values())
                deadline = min(overall, time.monotonic() + max(_LEAST, share))
                del weights[compiler]
                with closing_step(failed, f"auditing {compiler}", "what it found until then is kept"):
                    with self._hard_stop(deadline):
                        run(deadline)
                    self._keep_reached()
                    self._note_end(compiler, cut=time.monotonic() >= deadline)
            self.result.seconds = memory.seconds
            with closing_step(failed, "noting the end of the audit", "--resume brings it to its end"):
                memory.close(finished=not failed)  # failed steps are tried again when the audit is resumed
        except BaseException:  # including Ctrl-C: the audit can be resumed
            self._keep_reached()
            memory.close(finished=False)
            raise

    def _part(self, compiler: str) -> Callable[[str, str, list[Rule], float | None], None]:
        """Return the method that audits a compiler."""
        parts = {"inductor": self._inductor, PASSES: self._passes, SCHEDULED: self._scheduled}
        return parts.get(compiler, self._onnx)

    def _note_end(self, compiler: str, *, cut: bool) -> None:
        self.result.cut += [compiler] * cut
        self._memory.keep("ended", compiler, {"cut": cut})

    @property
    def _grace(self) -> float:
        return min(GRACE, SHARE_OF_GRACE * self.result.plan.seconds)

    def _keep_reached(self) -> None:
        """Store how far each rule came, which `driftline coverage` reads."""
        reached = {name: {r.rule.id: str(r.reach) for r in one.rules} for name, one in self.result.compilers.items()}
        self._memory.keep_all(REACHED, reached)

    @contextlib.contextmanager
    def _hard_stop(self, deadline: float) -> Iterator[None]:
        """Let jobs that are running at the deadline continue for a short grace time, then end them; the next run
        repeats them. Without this, the steps could overrun the budget by minutes."""
        pool = self._checker.pool
        before = pool.deadline
        pool.deadline = min(before, deadline + self._grace)
        try:
            with contextlib.suppress(PoolExpired):
                yield
        finally:
            pool.deadline = before

    def _recall(self) -> None:
        """Load what an earlier run of this audit found."""
        for bug, body in self._memory.kept("bug").items():
            if self._store.has_bug(bug):
                self.result.bugs[bug] = (self._store.bug(bug), Told(**body))
        self.result.out_of_reach += [Told(**body) for body in self._memory.kept("out of reach").values()]

    def _list(self) -> dict[str, tuple[str, list[Rule]]]:
        plan, listed, names = self.result.plan, {}, set()
        for compiler in plan.compilers:
            self._listener(Working(compiler, f"listing its {'passes' if plan.passes else 'rules'}"))
            for label, (version, rules) in self._listed_of(compiler).items():
                names |= {rule.name for rule in rules}
                about = {rule.id: {"name": rule.name, "unreachable": rule.unreachable} for rule in rules}
                self._memory.keep(LISTED, label, about)
                wanted = [rule for rule in rules if chosen(rule, plan.only)]
                if wanted:
                    listed[label] = (version, wanted)
        if not listed:
            word, place = ("pass", "passes") if plan.passes else ("rule", "patterns")
            raise DriftlineError(
                f"--only {plan.only}: no {word} has such an id, name, group or compiler."
                f"{did_you_mean(plan.only, sorted(names))} See driftline {place} list."
            )
        return listed

    def _listed_of(self, compiler: str) -> dict[str, tuple[str, list[Rule]]]:
        plan = self.result.plan
        if plan.passes:
            return {f"{compiler} {ALONE}": passes_of(self._checker, compiler, plan.plugins)}
        return all_rules_of(self._checker, compiler, plan.device)

    # Each compiler's part takes the time at which to stop; `None`: it came to its end before, and is only recalled.

    # -- TorchInductor -----------------------------------------------------------------------------------------------

    def _inductor(self, compiler: str, version: str, rules: list[Rule], deadline: float | None) -> None:
        audit = self._inductor_audit(compiler, version, rules)
        if deadline is None:
            return
        now = time.monotonic()
        until = now + max(_LEAST, (deadline - now) * SHARE_OF_FIRING)
        with self._hard_stop(until):
            for one in audit.fire(until):
                self._memory.keep("fired", one.rule.id, one.to_json())
                fired = sum(each.reach is Reach.FIRED for each in audit.progress.values())
                self._listener(Working(compiler, f"{fired} of {len(rules)} rules fire"))
        with self._hard_stop(deadline):
            self._perturb(compiler, audit, deadline)

    def _passes(self, compiler: str, version: str, rules: list[Rule], deadline: float | None) -> None:
        """Perturb fusions and no-op removals like rules. Passes, decompositions and lowerings are only counted, since a
        hunt tests them with every program that it compiles."""
        audit = self._inductor_audit(compiler, version, rules)
        if deadline is not None:
            now = time.monotonic()
            until = now + max(_LEAST, (deadline - now) * SHARE_OF_SWEEPING)
            with self._hard_stop(until):
                self._sweep(compiler, audit, until)
            written = [rule.id for rule in rules if rule.kind in (FUSION, NO_OP)]
            with self._hard_stop(deadline):
                self._perturb(compiler, audit.only(written), deadline)
        for one in audit.progress.values():
            if one.reach is not Reach.FIRED and not one.reason:
                one.reason = "no operator test brings it about"

    def _inductor_audit(self, compiler: str, version: str, rules: list[Rule]) -> InductorAudit:
        """Return the audit of Inductor's rules, with the progress that earlier runs stored."""
        plan = self.result.plan
        audit = InductorAudit(self._checker, rules, seed=plan.seed, jobs=self._checker.jobs, device=plan.device)
        self.result.compilers[compiler] = CompilerResult(version, list(audit.progress.values()))
        for rule, body in self._memory.kept("fired").items():
            if one := audit.progress.get(rule):
                vars(one).update({**body, "reach": Reach(body["reach"])})
        return audit

    def _sweep(self, compiler: str, audit: InductorAudit, deadline: float) -> None:
        rules = [one.rule for one in audit.progress.values()]
        subjects = list_outside(self._checker)[1]
        written = [rule.id for rule in rules if rule.kind in (FUSION, NO_OP)]
        tests = [subject for subject in subjects if "/" not in subject] if len(written) < len(rules) else []
        swept = self._memory.kept("swept")
        asked = [subject for subject in (*(s for s in written if s in subjects), *tests) if subject not in swept]
        seen = {one.rule.id for one in audit.progress.values() if one.reach is Reach.FIRED}
        for done, subject in enumerate(audit.sweep(asked, deadline), 1):
            fired = {one.rule.id: one for one in audit.progress.values() if one.reach is Reach.FIRED}
            self._memory.keep_all("fired", {rule: fired[rule].to_json() for rule in fired.keys() - seen})
            self._memory.keep("swept", subject, {})
            seen |= fired.keys()
            words = f"{done} of {len(asked)} subjects, {len(fired)} of {len(rules)} at work"
            self._listener(Working(compiler, words))

    def _perturb(self, compiler: str, audit: InductorAudit, deadline: float) -> None:
        perturbed, settled = self._memory.kept("perturbed"), self._memory.kept("settled")
        kept = [suspect for body in perturbed.values() for suspect in body.get("suspects", ())]
        waiting = [suspect for suspect in (decode(RuleSuspect, body) for body in kept) if suspect.name not in settled]
        gone = len(perturbed.keys() & audit.progress.keys())
        for event in audit.perturb(deadline, perturbed, waiting):
            if isinstance(event, Perturbed):
                body = {"suspects": [encode(RuleSuspect, suspect) for suspect in event.suspects]}
                self._memory.keep("perturbed", event.rule, body)
                gone += 1
                self._listener(Working(compiler, f"{gone} rules perturbed, {len(self.result.bugs)} bugs"))
                continue
            if event.found:
                self.keep(event.found)
            self._memory.keep("settled", event.suspect.name, {})
        self.result.internal_errors += audit.internal_errors

    # -- compilers that take ONNX ------------------------------------------------------------------------------------

    def _onnx(self, compiler: str, version: str, rules: list[Rule], deadline: float | None) -> None:
        wanted = {rule.id for rule in rules}
        plan = self.result.plan
        audit = OnnxAudit(
            self._checker,
            self._auditee(compiler, rules),
            OnnxAuditPlan(
                budget=max(_LEAST, (deadline or 0.0) - time.monotonic()),
                seed=plan.seed,
                plugins=plan.plugins,
                only=lambda rule: rule.id in wanted,
            ),
            tell=says(self._listener, compiler),
            memory=StepMemory.of(self._memory, f"asked of {compiler}"),
        )
        with contextlib.suppress(PoolExpired):
            for suspect in audit.run() if deadline is not None else ():
                self.keep(
                    Found(
                        suspect.rule,
                        suspect.change or f"as in {suspect.base}",
                        *suspect.failure,
                        guilty=(suspect.rule.id,),
                        without=str(suspect.without),
                    )
                )
        self.result.compilers[compiler] = CompilerResult(version, list(_brought(rules, audit.tally.reach)))

    def _scheduled(self, compiler: str, version: str, rules: list[Rule], deadline: float | None) -> None:
        """Try TVM's passes on programs, and its TensorIR passes also on functions with schedule primitives."""
        now = time.monotonic()
        fitting = [rule for rule in rules if rule.group == TENSOR_IR and not rule.unreachable]
        share = SHARE_OF_PROGRAMS if fitting else 1.0
        until = deadline and now + max(_LEAST, (deadline - now) * share)
        if until is not None:
            with self._hard_stop(until):
                self._onnx(compiler, version, rules, until)
        else:
            self._onnx(compiler, version, rules, None)
        if fitting:
            self._on_schedules(compiler, fitting, deadline)

    def _on_schedules(self, compiler: str, rules: list[Rule], deadline: float | None) -> None:
        by_name = {rule.name: rule for rule in rules}
        test = ScheduledPasses(
            self._checker.pool,
            self._store,
            ScheduledPlan(tuple(by_name), (deadline or 0.0) - time.monotonic(), self.result.plan.seed),
            jobs=self._checker.jobs,
            tell=says(self._listener, f"{compiler}, on schedules"),
            memory=StepMemory.of(self._memory, f"scheduled for {compiler}"),
        )
        with contextlib.suppress(PoolExpired):
            for name in test.run() if deadline is not None else ():
                self._keep_scheduled(self._store.bug(name), by_name)
        before = self.result.compilers[compiler]
        reached = {one.rule.name: one.reach for one in before.rules}
        changed = dict.fromkeys(test.tally.changed, Reach.FIRED)
        more = tuple(name for name in by_name if name in changed and reached[name] is not Reach.FIRED)
        raised = {name: Reach.MATCHED for name in test.tally.raised if reached[name] is Reach.NONE}
        brought = list(_brought([one.rule for one in before.rules], {**reached, **raised, **changed}))
        self.result.compilers[compiler] = CompilerResult(before.version, brought, more)

    def _keep_scheduled(self, bug: Bug, rules: Mapping[str, Rule]) -> None:
        """Add a bug that is already in the store to the results of the audit."""
        finding = bug.findings[0]
        (target,) = self._store.load_case(finding.case_id).targets
        rule = rules[dict(target.options)[ONE_PASS]]
        told = Told(
            rule={"id": rule.id, "name": rule.name, "group": rule.group, "where": rule.where},
            mutation=f"a schedule: {bug.fingerprint.detail.partition(' by pass ')[0]}",
            guilty=[rule.id],
            without=str(Target(target.backend, None, ((ONE_PASS, NO_PASS),))),
            reachable=True,
            script=str(finding.verdict.get("script", "")),
            target=str(target),
            kind=bug.fingerprint.kind,
            reason=bug.summary,
        )
        if bug.id not in self.result.bugs:
            self._memory.keep("bug", bug.id, told.to_json())
            self.result.bugs[bug.id] = (bug, told)
            self._listener(BugSeen(bug, new=True, how=f"{rule.name}, {told.mutation}"))

    def _auditee(self, label: str, rules: Sequence[Rule]) -> Auditee:
        if not self.result.plan.passes:
            return auditee(label)
        names = [rule.name for rule in rules if not rule.unreachable]
        return PassesOneByOne(label.partition(" ")[0], self.result.plan.plugins, names)

    # -- findings ----------------------------------------------------------------------------------------------------

    def keep(self, found: Found) -> None:
        """Store a finding as a bug, or note it as out of reach if ordinary code cannot write its program."""
        told = found.told()
        if not found.reachable:
            self._memory.keep("out of reach", f"{found.rule.id} {found.mutation} {told.target}", told.to_json())
            self.result.out_of_reach.append(told)
            self._listener(OutOfReach(found.rule.name, found.mutation))
            return
        bug = record(self._store, found.case, found.result, found.reference, found.about())
        if bug and bug.id not in self.result.bugs:
            self._memory.keep("bug", bug.id, told.to_json())
            self.result.bugs[bug.id] = (bug, told)
            self._listener(BugSeen(bug, new=True, how=f"{found.rule.name}, {found.mutation}"))


def _brought(rules: Sequence[Rule], reached: dict[str, Reach]) -> Iterator[RuleProgress]:
    for rule in rules:
        reach = reached.get(rule.name, Reach.NONE)
        missing = "" if reach is Reach.FIRED else rule.unreachable or "no program made it fire in the time given"
        yield RuleProgress(rule, reach, missing)
