"""Compilers that take ONNX and whose rules go by name: what an audit asks of them, and where each is."""

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

    def models(self, pool: Pool, seed: int) -> OnnxModels:
        """Where its programs come from."""
        return OnnxModels(pool, seed)

    def ask(self, pool: Pool, target: Target, models: Sequence[Made], fired: Mapping[str, int]) -> list[SurveySeen]:
        """What it does with each model. `fired`: how many models each rule has fired on before; the same whatever else
        is asked at the same time."""
        raise NotImplementedError


def auditee(compiler: str) -> Auditee:
    made: Auditee = import_string(_AUDITEES[compiler])()
    return made
