"""TVM's passes as rules: those of the default pipeline, the transforms that users call, and its fusion patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driftline.backends import resolve
from driftline.backends.tvm_names import PIPELINE, REQUIRED, TRANSFORMS
from driftline.checking.kinds import worker_for_target
from driftline.core.rule import Rule
from driftline.core.target import Target
from driftline.execute.pool import Pool, WorkerKind
from driftline.patterns.auditees import Auditee
from driftline.patterns.survey import Made, Models, SurveySeen, survey
from driftline.patterns.tvm_tasks import AUDIT, PASSES, PassesRequest, TvmAuditRequest

# Passes of the default pipeline that have nothing to do unless a schedule asks for threads, tiles or pipelines.
_SCHEDULED = frozenset(
    """
    RewriteCUDAGraph s_tir.LowerCrossThreadReduction s_tir.LiftThreadBinding s_tir.ManifestSharedMemoryLocalStage
    s_tir.LowerAutoCopy s_tir.UnifyThreadBinding s_tir.InjectPermutedLayout s_tir.InjectSoftwarePipeline
    s_tir.TransformMmaBufferLayout s_tir.InjectVirtualThread s_tir.InjectDoubleBuffer s_tir.VerifyVTCMLimit
    s_tir.LowerVtcmAlloc s_tir.ThreadSync s_tir.InferFragment s_tir.LowerThreadAllreduce
    s_tir.MergeSharedMemoryAllocations s_tir.LowerMatchBuffer s_tir.CanonicalizeLoop
    """.split()
)
_CHECKS = frozenset(["tirx.VerifyMemory"])  # they look, and change nothing
# They compute with less precision by design.
_INEXACT = ("FastMathTransform", "ToMixedPrecision")


class TvmRules(Auditee):
    compiler = "tvm"
    batch = 6
    ways = 1

    def rules(self, pool: Pool) -> list[Rule]:
        listed = pool.ask(self._worker(), PASSES, PassesRequest(), timeout=120.0)
        seen = set(listed.passes)
        rules = [_pass(name, name in seen) for name in PIPELINE]
        rules += [_transform(name) for name in TRANSFORMS]
        return rules + [_pattern(name, why) for name, why in sorted(listed.patterns.items())]

    def surveyed(self, rules: Sequence[Rule]) -> list[Target]:
        return [Target(self.compiler)]  # transforms are applied one by one inside

    def without(self, target: Target, rule: Rule) -> Target | None:
        if rule.kind == "transform":
            return Target(self.compiler)
        return (
            None
            if rule.name in REQUIRED or rule.kind == "fusion pattern"
            else Target(self.compiler, None, (("skip", rule.name),))
        )

    def ask(self, pool: Pool, target: Target, models: Sequence[Made], fired: Mapping[str, int]) -> list[SurveySeen]:
        transforms = tuple(name for name in TRANSFORMS if name not in _INEXACT)

        def request(models: Models) -> TvmAuditRequest:
            return TvmAuditRequest(models, transforms)

        return survey(pool, self._worker(), AUDIT, request, models, timeout=120.0)

    def _worker(self) -> WorkerKind:
        target = Target(self.compiler)
        return worker_for_target(resolve(target), target, ())


def _pass(name: str, runs: bool) -> Rule:
    reason = "" if runs else "the default pipeline of this version does not run it"
    if name in _SCHEDULED:
        reason = "only where a schedule or a GPU asks for it"
    elif name in _CHECKS:
        reason = "checks the module and changes nothing"
    group = "TensorIR pipeline" if "." in name else "Relax pipeline"
    return Rule(id=f"tvm.{name}", compiler="tvm", group=group, name=name, kind="pass", unreachable=reason, text=name)


def _transform(name: str) -> Rule:
    return Rule(
        id=f"tvm.{name}",
        compiler="tvm",
        group="Relax transforms",
        name=name,
        kind="transform",
        where=f"tvm.relax.transform.{name}",
        needs=(("passes", name),),
        unreachable="computes with less precision by design: not audited" if name in _INEXACT else "",
        text=" ".join(TRANSFORMS[name]),
    )


def _pattern(name: str, unreachable: str) -> Rule:
    return Rule(
        id=f"tvm.pattern.{name}",
        compiler="tvm",
        group="fusion patterns",
        name=name,
        kind="fusion pattern",
        unreachable=unreachable or "only with FuseOpsByPattern and its library, which the pipeline does not use",
        text=name,
    )
