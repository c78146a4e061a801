"""Audit a compiler's passes one at a time: the target with one pass against the target with none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from driftline.backends import BACKENDS, resolve
from driftline.campaign.check.forms import form_of
from driftline.checking.kinds import worker_for_target
from driftline.core.rule import NO_PASS, ONE_PASS, PASS, Rule
from driftline.core.target import Target
from driftline.core.verdict import Verdict
from driftline.execute.pool import Pool, WorkerKind
from driftline.patterns.auditees import Auditee, auditee
from driftline.patterns.graph_programs import GraphPrograms
from driftline.patterns.onnx_models import OnnxModels
from driftline.patterns.pass_tasks import AUDIT, LIST, PassAuditRequest, PassListRequest
from driftline.patterns.survey import Made, Models, SurveySeen, survey

# A pass is tried alone on so many of the programs that it changes; on the others it is tried alone only when the
# passes that change them, all together, change the results.
ALONE = 3
_RULES_ALONE = ("onnxruntime", "onnxscript")  # their rules can be applied one at a time: `pass` names them too
TIMEOUT = 180.0  # seconds for one job: every pass is compiled for itself


class PassesOneByOne(Auditee):
    """The passes of one compiler. `names` are the passes to try; None means all."""

    def __init__(self, compiler: str, plugins: tuple[str, ...] = (), names: Sequence[str] | None = None) -> None:
        self.compiler = compiler
        self.batch = 16 if compiler in _RULES_ALONE else 4
        self.ways = 2 if compiler in _RULES_ALONE else 1
        self._plugins = plugins
        self._names = names

    def rules(self, pool: Pool) -> list[Rule]:
        request = PassListRequest(self.compiler, self._plugins)
        listed = pool.ask(self._worker(), LIST, request, timeout=120.0)
        rules = self._rewrites(pool) + [
            Rule(
                id=f"{self.compiler}.{one.name}",
                compiler=self.compiler,
                group=one.group,
                name=one.name,
                kind=PASS,
                needs=() if one.untried else ((ONE_PASS, one.name),),
                unreachable=one.untried,
                text=one.name,
            )
            for one in listed.passes
        ]
        if self._names is None:
            self._names = [rule.name for rule in rules if not rule.unreachable]
        return rules

    def _rewrites(self, pool: Pool) -> list[Rule]:
        """Return the rules of the compiler's ordinary audit, if each can be applied alone like a pass."""
        if self.compiler not in _RULES_ALONE:
            return []
        known = auditee(self.compiler)
        rules = []
        for rule in known.rules(pool):
            untried = rule.unreachable or ("" if known.exact(rule) else "changes results by design")
            needs = () if untried else ((ONE_PASS, rule.name),)
            rules.append(replace(rule, needs=needs, unreachable=untried))
        return rules

    def models(self, pool: Pool, seed: int) -> OnnxModels:
        form = form_of(BACKENDS.get(self.compiler))
        return OnnxModels(pool, seed) if form in (None, "onnx") else GraphPrograms(pool, seed, form)

    def convincing(self, rule: Rule, verdict: Verdict) -> bool:
        return self.compiler not in _RULES_ALONE or auditee(self.compiler).convincing(rule, verdict)

    def target(self, rule: Rule | None = None) -> Target:
        return Target(self.compiler, None, ((ONE_PASS, rule.name if rule else NO_PASS),))

    def surveyed(self, rules: Sequence[Rule]) -> list[Target]:
        return [self.target()]  # passes are tried one by one inside

    def without(self, target: Target, rule: Rule) -> Target | None:
        return self.target()

    def ask(self, pool: Pool, target: Target, models: Sequence[Made], fired: Mapping[str, int]) -> list[SurveySeen]:
        names = tuple(self._names or ())
        watched = tuple(name for name in names if fired.get(name, 0) < ALONE)
        found = self._ask(pool, models, names, watched)
        for place, seen in enumerate(found):
            if seen.crash:
                found[place] = self._ended_by(pool, models[place], names) or seen
        return found

    def _ask(
        self, pool: Pool, models: Sequence[Made], names: tuple[str, ...], watched: tuple[str, ...]
    ) -> list[SurveySeen]:
        def request(asked: Models) -> PassAuditRequest:
            return PassAuditRequest(asked, self.compiler, names, watched, self._plugins)

        return survey(pool, self._worker(), AUDIT, request, models, timeout=TIMEOUT)

    def _ended_by(self, pool: Pool, model: Made, names: Sequence[str]) -> SurveySeen | None:
        """Run each pass alone on a model that ended the process, to see which passes do so. Returns None if the model
        ends the process without any pass."""
        if self._ask(pool, [model], (), ())[0].crash:
            return None
        seen = SurveySeen()
        for name in names:
            (one,) = self._ask(pool, [model], (name,), (name,))
            differing = {name: one.crash} if one.crash else one.differing
            seen = replace(
                seen,
                matched=(*seen.matched, *one.matched),
                fired=(*seen.fired, *one.fired),
                differing={**seen.differing, **differing},
            )
        return seen

    def _worker(self) -> WorkerKind:
        target = Target(self.compiler)
        return worker_for_target(resolve(target), target, self._plugins)


def compilers_with_passes() -> dict[str, str]:
    """Return, for each compiler whose passes can be tried one by one, why it is not available here; an empty string if
    it is."""
    found = {}
    for name in BACKENDS:
        backend = BACKENDS.get(name)
        if ONE_PASS in backend.options:
            state = backend.installed()
            found[name] = "" if state.available else state.reason
    return found
