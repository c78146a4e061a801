"""An audit over several compilers, with a memory: what fired and what was found is kept as soon as it is known."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from driftline.backends import BACKENDS
from driftline.campaign.session import record
from driftline.checking.checker import Checker
from driftline.core.errors import DriftlineError
from driftline.core.rule import FUSION, NO_OP, Reach, Rule
from driftline.core.text import did_you_mean
from driftline.patterns.auditees import auditee
from driftline.patterns.found import Found
from driftline.patterns.inductor_audit import SHARE_OF_FIRING, InductorAudit, Progress, list_outside, list_rules
from driftline.patterns.onnx_audit import OnnxAudit
from driftline.store import Bug, Store
from driftline.store.audits import AuditEntry, AuditLog

COMPILERS = ("inductor", "onnxruntime", "tvm", "onnxscript")
PASSES = "inductor passes"  # what Inductor rewrites with outside its pattern tables
_WEIGHTS = {"inductor": 8.0, PASSES: 2.0, "onnxruntime": 3.0, "tvm": 1.5}  # of the budget; 1 for the others
SHARE_OF_SWEEPING = 0.6
_LEAST = 5.0  # seconds that a step is worth starting for

Tell = Callable[[str], None]


@dataclass(frozen=True)
class AuditPlan:
    """What was asked for."""

    compilers: tuple[str, ...]
    only: str = ""
    seconds: float = 1800.0
    seed: int = 0


@dataclass
class CompilerResult:
    """What came of one compiler's rules."""

    version: str
    rules: list[Progress]

    def counts(self) -> dict[str, Any]:
        """Rules by how far they were brought; each counts for every step below the one it reached."""
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
    """Everything an audit brought."""

    plan: AuditPlan
    seconds: float = 0.0
    compilers: dict[str, CompilerResult] = field(default_factory=dict)
    bugs: dict[str, tuple[Bug, Found]] = field(default_factory=dict)  # by id, with the first finding
    out_of_reach: list[Found] = field(default_factory=list)  # wrong, but on programs that ordinary code cannot write
    internal_errors: list[str] = field(default_factory=list)  # what went wrong in Driftline itself


def available_compilers() -> dict[str, str]:
    """The compilers whose rules can be audited; and for each why not, when it cannot be."""
    found = {}
    for name in COMPILERS:
        state = BACKENDS.get(name).installed()
        found[name] = "" if state.available else state.reason
    return found


def rules_of(checker: Checker, compiler: str) -> tuple[str, list[Rule]]:
    """The version of a compiler and its rules."""
    if compiler == "inductor":
        return list_rules(checker)
    return BACKENDS.get(compiler).version(), auditee(compiler).rules(checker.pool)


def all_rules_of(checker: Checker, compiler: str) -> dict[str, tuple[str, list[Rule]]]:
    """The same with what rewrites outside any table, under a name of its own."""
    version, rules = rules_of(checker, compiler)
    outside = {PASSES: (version, list_outside(checker)[0])} if compiler == "inductor" else {}
    return {compiler: (version, rules), **outside}


def chosen(rule: Rule, only: str) -> bool:
    """Does the pattern name this rule: by id, name, group, compiler, or `compiler/group/name`?"""
    names = (rule.id, rule.name, rule.group, rule.compiler, f"{rule.compiler}/{rule.group}/{rule.name}")
    return not only or any(fnmatchcase(name, only) for name in names)


class Audit:
    """One audit. Findings go into the store; `tell` hears what happens, in words."""

    def __init__(self, checker: Checker, store: Store, plan: AuditPlan, *, jobs: int = 2, tell: Tell) -> None:
        self._checker = checker
        self._store = store
        self._log = AuditLog(store)
        self._jobs = jobs
        self._tell = tell
        self.result = AuditResult(plan)

    def run(self, going: AuditEntry | None = None) -> AuditResult:
        plan = self.result.plan
        entry = going or self._log.begin(asdict(plan))
        begun = time.monotonic() - entry.seconds
        listed = self._list()
        try:
            weights = sum(_WEIGHTS.get(compiler, 1.0) for compiler in listed)
            for compiler, (version, rules) in listed.items():
                left = plan.seconds - (time.monotonic() - begun)
                weight = _WEIGHTS.get(compiler, 1.0)
                share, weights = left * weight / weights, weights - weight
                run = {"inductor": self._inductor, PASSES: self._passes}.get(compiler, self._onnx)
                run(compiler, version, rules, time.monotonic() + share, entry.id)
            self.result.seconds = time.monotonic() - begun
            self._log.spent(entry.id, self.result.seconds, finished=True)
        except BaseException:
            self._log.spent(entry.id, time.monotonic() - begun)
            raise
        return self.result

    def _list(self) -> dict[str, tuple[str, list[Rule]]]:
        plan, listed, names = self.result.plan, {}, set()
        for compiler in plan.compilers:
            self._tell(f"{compiler}: listing its rules")
            for label, (version, rules) in all_rules_of(self._checker, compiler).items():
                names |= {rule.name for rule in rules}
                wanted = [rule for rule in rules if chosen(rule, plan.only)]
                if wanted:
                    listed[label] = (version, wanted)
        if not listed:
            raise DriftlineError(
                f"--only {plan.only}: no rule has such an id, name, group or compiler."
                f"{did_you_mean(plan.only, sorted(names))} See driftline patterns list."
            )
        return listed

    # -- TorchInductor -----------------------------------------------------------------------------------------------

    def _inductor(self, compiler: str, version: str, rules: list[Rule], deadline: float, entry: int) -> None:
        audit = InductorAudit(self._checker, rules, seed=self.result.plan.seed, jobs=self._jobs)
        self.result.compilers[compiler] = CompilerResult(version, list(audit.progress.values()))
        for rule, body in self._log.kept(entry, "fired").items():
            if one := audit.progress.get(rule):
                vars(one).update({**body, "reach": Reach(body["reach"])})
        now = time.monotonic()
        for one in audit.fire(now + max(_LEAST, (deadline - now) * SHARE_OF_FIRING)):
            self._log.keep(entry, "fired", one.rule.id, one.to_json())
            fired = sum(each.reach is Reach.FIRED for each in audit.progress.values())
            self._tell(f"{compiler}: {fired} of {len(rules)} rules fire")
        self._perturb(compiler, audit, deadline, entry)

    def _passes(self, compiler: str, version: str, rules: list[Rule], deadline: float, entry: int) -> None:
        """Fusions and no-ops are perturbed like rules; passes, decompositions and lowerings are only counted: a hunt
        judges them with every program it compiles."""
        audit = InductorAudit(self._checker, rules, seed=self.result.plan.seed, jobs=self._jobs)
        self.result.compilers[compiler] = CompilerResult(version, list(audit.progress.values()))
        written = [rule.id for rule in rules if rule.kind in (FUSION, NO_OP)]
        subjects = list_outside(self._checker)[1]
        tests = [subject for subject in subjects if "/" not in subject] if len(written) < len(rules) else []
        asked = [*(subject for subject in written if subject in set(subjects)), *tests]
        now = time.monotonic()
        for done, _ in enumerate(audit.sweep(asked, now + max(_LEAST, (deadline - now) * SHARE_OF_SWEEPING)), 1):
            fired = sum(each.reach is Reach.FIRED for each in audit.progress.values())
            self._tell(f"{compiler}: {done} of {len(asked)} subjects, {fired} of {len(rules)} at work")
        self._perturb(compiler, audit.only(written), deadline, entry)
        for one in audit.progress.values():
            if one.reach is not Reach.FIRED and not one.reason:
                one.reason = "no operator test brings it about"

    def _perturb(self, compiler: str, audit: InductorAudit, deadline: float, entry: int) -> None:
        perturbed = frozenset(self._log.kept(entry, "perturbed"))
        gone = len(perturbed & audit.progress.keys())
        for found in audit.perturb(deadline, perturbed):
            if isinstance(found, Found):
                self._keep(found)
            else:
                self._log.keep(entry, "perturbed", found, {})
                gone += 1
                self._tell(f"{compiler}: {gone} rules perturbed, {len(self.result.bugs)} bugs")
        self.result.internal_errors += audit.internal_errors

    # -- compilers that take ONNX ------------------------------------------------------------------------------------

    def _onnx(self, compiler: str, version: str, rules: list[Rule], deadline: float, entry: int) -> None:
        wanted = {rule.id for rule in rules}
        audit = OnnxAudit(
            self._checker,
            auditee(compiler),
            budget=max(_LEAST, deadline - time.monotonic()),
            seed=self.result.plan.seed,
            only=lambda rule: rule.id in wanted,
            tell=lambda words: self._tell(f"{compiler}: {words}"),
        )
        for suspect in audit.run():
            mutation = suspect.change or f"as in {suspect.base}"
            self._keep(
                Found(
                    suspect.rule, mutation, suspect.case, suspect.result, suspect.reference, guilty=(suspect.rule.id,)
                )
            )
        self.result.compilers[compiler] = CompilerResult(version, list(_brought(rules, audit.tally.reach)))

    # -- findings ----------------------------------------------------------------------------------------------------

    def _keep(self, found: Found) -> None:
        if not found.reachable:
            self.result.out_of_reach.append(found)
            self._tell(f"out of reach of ordinary code: {found.rule.name}, {found.mutation}")
            return
        bug = record(self._store, found.case, found.result, found.reference, found.about())
        if bug and bug.id not in self.result.bugs:
            self.result.bugs[bug.id] = (bug, found)
            self._tell(f"new  {bug.id}  {found.rule.name}, {found.mutation}: {bug.fingerprint.kind}")


def _brought(rules: Sequence[Rule], reached: dict[str, Reach]) -> Iterator[Progress]:
    for rule in rules:
        reach = reached.get(rule.name, Reach.NONE)
        missing = "" if reach is Reach.FIRED else rule.unreachable or "no program made it fire in the time given"
        yield Progress(rule, reach, missing)
