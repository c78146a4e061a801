"""Small audits for the tests: a few idioms, with every change made to them once."""

from __future__ import annotations

from collections.abc import Sequence

from driftline.checking.checker import Checker
from driftline.patterns.auditees import Auditee
from driftline.patterns.onnx_audit import GuiltyRule, OnnxAudit, OnnxAuditPlan


def audit(
    checker: Checker, auditee: Auditee, idioms: Sequence[str], only: Sequence[str], rounds: int = 1
) -> tuple[OnnxAudit, list[GuiltyRule]]:
    """Audit the named rules on these idioms."""
    plan = OnnxAuditPlan(budget=900, idioms=idioms, rounds=rounds, only=lambda rule: rule.name in only)
    made = OnnxAudit(checker, auditee, plan)
    return made, list(made.run())
