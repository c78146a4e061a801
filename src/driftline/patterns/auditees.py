"""Compilers that take ONNX and have named rules: the interface that an audit uses, and where each is implemented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driftline.core.registry import import_string
from driftline.core.rule import Rule
from driftline.core.target import Target
from driftline.core.verdict import Verdict
from driftline.execute.pool import Pool
from driftline.patterns.onnx_models import OnnxModels
from driftline.patterns.survey import Made, SurveySeen

_AUDITEES = {
    "onnxruntime": "driftline.patterns.onnxruntime:OnnxRuntimeRules",
    "tvm": "driftline.patterns.tvm:TvmRules",
    "onnxscript": "driftline.patterns.onnxscript_rules:OnnxScriptRules",
}


class Auditee:
    """The interface to a compiler with named rules. Each compiler has its own subclass."""

    compiler: str
    batch = 40  # models in one job: some seconds of work
    ways = 4  # of writing each idiom: with and without nodes before and after it

    def rules(self, pool: Pool) -> list[Rule]:
        """Return every known rule. A rule that cannot fire here says why."""
        raise NotImplementedError

    def target(self, rule: Rule | None = None) -> Target:
        """Return the compiler as users have it, with the options that the rule needs if it is off by default."""
        return Target(self.compiler, None, rule.needs if rule else ())

    def surveyed(self, rules: Sequence[Rule]) -> list[Target]:
        """Return the targets to run models on so that all of these rules can fire."""
        return list(dict.fromkeys(self.target(rule) for rule in rules))

    def without(self, target: Target, rule: Rule) -> Target | None:
        """Return the target without this rule; None if the compiler does not work without it."""
        raise NotImplementedError

    def alone(self, target: Target, rule: Rule) -> Target | None:
        """Return the target with this rule only; None if that is not possible."""
        return None

    def exact(self, rule: Rule) -> bool:
        """True if the rule claims to preserve results. Some rules openly do not."""
        return True

    def convincing(self, rule: Rule, verdict: Verdict) -> bool:
        """True if the failure can be blamed on the rule itself."""
        return True

    def models(self, pool: Pool, seed: int) -> OnnxModels:
        """Return the source of the programs to try."""
        return OnnxModels(pool, seed)

    def ask(self, pool: Pool, target: Target, models: Sequence[Made], fired: Mapping[str, int]) -> list[SurveySeen]:
        """Return what the compiler does with each model. `fired` says on how many models each rule has fired before.
        The answers do not depend on the other models in the batch."""
        raise NotImplementedError


def auditee(compiler: str) -> Auditee:
    """Return the auditee of a compiler by name."""
    made: Auditee = import_string(_AUDITEES[compiler])()
    return made
