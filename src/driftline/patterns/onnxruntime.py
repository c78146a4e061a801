"""ONNX Runtime's graph optimisers as rules. Each can be disabled by name: `onnxruntime:disable=FuseReluClip`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driftline.backends import resolve
from driftline.backends.onnxruntime import OPTIMIZERS, REWRITE_RULES, SETTINGS
from driftline.checking.kinds import worker_for_target
from driftline.core.rule import Rule
from driftline.core.target import Target
from driftline.execute.pool import Pool, WorkerKind
from driftline.patterns.auditees import Auditee
from driftline.patterns.onnxruntime_tasks import AUDIT, OPTIMISERS, OnnxRuntimeAuditRequest, OptimisersRequest
from driftline.patterns.survey import Made, Models, SurveySeen, survey

_LEVELS = {0: "always", 1: "basic", 2: "extended", 3: "layout"}

# What a session runs and can never change anything on the CPU (onnxruntime/core/optimizer/graph_transformer_utils.cc).
_ELSEWHERE = {
    "BiasDropoutFusion": "only for CUDA and ROCm",
    "BiasSkipLayerNormFusion": "only for models that hold operators of ONNX Runtime's own already",
    "EnsureUniqueDQForNodeUnit": "runs before all others, even when it is disabled",
    "FreeDimensionOverrideTransformer": "only with sizes that are fixed by a setting of the session",
    "GroupQueryAttentionFusion": "only for CUDA",
    "GroupQueryAttentionPreNormFusion": "only for models that hold operators of ONNX Runtime's own already",
    "Level1_RuleBasedTransformer": "holds the rewrite rules, which are listed one by one",
    "Level2_RuleBasedTransformer": "holds the rewrite rules, which are listed one by one",
    "MatMulActivationFusion": "only for DirectML",
}

# The processor decides whether a session runs these (the same file): why it does not, where its log does not name them.
_OF_THE_PROCESSOR = {
    "Avx2WeightS8ToU8Transformer": "not on this processor: its products of 8-bit integers do not overflow",
    "NchwcTransformer": "not on this processor: ONNX Runtime has no kernels for blocks of channels here",
    "QDQS8ToU8Transformer": "not on this processor: its kernels take signed 8-bit integers as they are",
}

# Another one does the same if these are left out: they are seen to fire only without it.
_SHADOWED = {
    "ConvAddActivationFusion": "NchwcTransformer",
    "DQMatMulNBitsFusion": "QDQSelectorActionTransformer",
    "TransposeOptimizer": "TransposeOptimizer_CPUExecutionProvider",
    "TransposeOptimizer_CPUExecutionProvider": "TransposeOptimizer",
    "UnsqueezeElimination": "ConstantFolding",
}

# They change results by design, and ONNX Runtime says so. The first three are off unless a setting asks for them: see
# core/session/onnxruntime_session_options_config_keys.h; for the last, see
# core/optimizer/qdq_transformer/weight_bias_quantization.h.
_INEXACT = {
    "CastChainElimination": "has side effects which may change the inference results",
    "GeluApproximation": "has side effects which may change the inference results",
    "QDQFinalCleanupTransformer": "could impact accuracy",
    "WeightBiasQuantization": "adds subgraphs to quantize the weight and/or bias",
}


class OnnxRuntimeRules(Auditee):
    """The optimisers of ONNX Runtime, as an audit uses them."""

    compiler = "onnxruntime"

    def __init__(self) -> None:
        self._names: list[str] = []
        self._rules: dict[str, Rule] = {}

    def rules(self, pool: Pool) -> list[Rule]:
        listed = pool.ask(self._worker(Target(self.compiler)), OPTIMISERS, OptimisersRequest(), timeout=60.0)
        levels, present = listed.levels, set(listed.present)
        rules = [_rule(name, levels, name in present) for name in sorted(OPTIMIZERS | _plain(levels))]
        self._rules = {rule.name: rule for rule in rules}
        self._names = [rule.name for rule in rules if not rule.unreachable]
        return rules

    def without(self, target: Target, rule: Rule) -> Target | None:
        return _disabling(target, [rule.name])

    def alone(self, target: Target, rule: Rule) -> Target | None:
        return _disabling(target, [name for name in self._names if name != rule.name])

    def exact(self, rule: Rule) -> bool:
        return rule.name not in _INEXACT

    def ask(self, pool: Pool, target: Target, models: Sequence[Made], fired: Mapping[str, int]) -> list[SurveySeen]:
        wanted = tuple(name for name in self._names if self.target(self._rules[name]) == target)
        rules = tuple(sorted(REWRITE_RULES))

        def request(models: Models) -> OnnxRuntimeAuditRequest:
            return OnnxRuntimeAuditRequest(models, dict(target.options), rules, wanted)

        return survey(pool, self._worker(target), AUDIT, request, models)

    def _worker(self, target: Target) -> WorkerKind:
        return worker_for_target(resolve(target), target, ())


def _disabling(target: Target, names: Sequence[str]) -> Target:
    options = dict(target.options)
    options["disable"] = "+".join(filter(None, [options.get("disable", ""), *names]))
    return Target(target.backend, target.version, tuple(options.items()))


def _plain(levels: Mapping[str, int]) -> set[str]:
    """Return the optimisers that a session reports, without transformers that insert casts and copies: those cannot be
    disabled."""
    return {name for name, level in levels.items() if level in _LEVELS and name in OPTIMIZERS}


def _rule(name: str, levels: Mapping[str, int], present: bool) -> Rule:
    level = levels.get(name)
    rewrites = name in REWRITE_RULES
    unreachable = _ELSEWHERE.get(name, "")
    if not unreachable and level is None and not (rewrites and present):
        missing = "in the library, but no session on the CPU runs it" if present else "not in this build"
        unreachable = _OF_THE_PROCESSOR.get(name, missing)
    return Rule(
        id=f"onnxruntime.{name}",
        compiler="onnxruntime",
        group="rewrite rules" if rewrites else _LEVELS.get(-1 if level is None else level, "not run"),
        name=name,
        kind="rewrite rule" if rewrites else "optimiser",
        needs=_needs(name, levels),
        unreachable=unreachable,
        text=name,
    )


def _needs(name: str, levels: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    enabled = (("enable", name),) if name in SETTINGS else ()
    shadow = _SHADOWED.get(name, "")
    disabled = (("disable", shadow),) if shadow in levels else ()  # a rule that does not run here hides no other
    return (*enabled, *disabled)
