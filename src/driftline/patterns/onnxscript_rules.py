"""onnxscript's rewrite rules: those that `rewriter.rewrite` applies by default, and those that users apply by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driftline.backends import resolve
from driftline.checking.kinds import worker_for_target
from driftline.core.rule import Rule
from driftline.core.target import Target
from driftline.core.verdict import Kind, Verdict
from driftline.execute.pool import Pool, WorkerKind
from driftline.patterns.auditees import Auditee
from driftline.patterns.onnxscript_tasks import AUDIT, RULES, OnnxScriptAuditRequest, RulesRequest
from driftline.patterns.survey import Made, SurveySeen, survey

GROSS = 1e4  # multiple of the rounding error bound: no kernel is that inaccurate
_OF_KERNELS = (Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE)


class OnnxScriptRules(Auditee):
    compiler = "onnxscript"

    def rules(self, pool: Pool) -> list[Rule]:
        listed = pool.ask(self._worker(), RULES, RulesRequest(), timeout=120.0)
        return [
            Rule(
                id=f"onnxscript.{entry.name}",
                compiler=self.compiler,
                group=entry.name.rpartition(".")[0],
                name=entry.name,
                kind="rewrite rule",
                where=entry.where,
                needs=() if entry.default else (("rules", entry.name),),
                unreachable=_unreachable(entry.foreign),
                text=entry.text,
            )
            for entry in listed.rules
        ]

    def surveyed(self, rules: Sequence[Rule]) -> list[Target]:
        return [Target(self.compiler)]  # each rule is applied alone inside

    def without(self, target: Target, rule: Rule) -> Target | None:
        return Target(target.backend, target.version, (*target.options, ("skip", rule.name)))

    def alone(self, target: Target, rule: Rule) -> Target | None:
        return Target(target.backend, target.version, (("rules", rule.name),))

    def convincing(self, rule: Rule, verdict: Verdict) -> bool:
        """True unless the failure may be the inaccuracy of ONNX Runtime's kernels, which compute the results of its
        fusions."""
        if not rule.name.startswith("ort_fusions.") or verdict.kind not in _OF_KERNELS:
            return True
        return verdict.evidence.size > GROSS

    def ask(self, pool: Pool, target: Target, models: Sequence[Made], fired: Mapping[str, int]) -> list[SurveySeen]:
        return survey(pool, self._worker(), AUDIT, OnnxScriptAuditRequest, models)

    def _worker(self) -> WorkerKind:
        target = Target(self.compiler)
        return worker_for_target(resolve(target), target, ())


def _unreachable(foreign: Sequence[str]) -> str:
    return f"matches {foreign[0]}, which only other rules make" if foreign else ""
