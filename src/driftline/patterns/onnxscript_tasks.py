"""Worker tasks of onnxscript: list rules, find out which of them rewrite a model, and whether its results stay the
same."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

from driftline.backends.onnxscript import all_rules, default_names, evaluated, may_match, rewritten
from driftline.core.task import Context, Task
from driftline.core.text import first_line
from driftline.patterns.survey import Models, Surveyed, SurveyJob, SurveySeen, difference, each_job

_ANONYMOUS = re.compile(r"anonymous:\d+")


_ME = "driftline.patterns.onnxscript_tasks"


@dataclass(frozen=True)
class RulesRequest:
    """Asks for the list of rules."""


@dataclass(frozen=True)
class ListedRule:
    """A rule's name, its place in the source, and its pattern as text."""

    name: str
    where: str
    text: str
    default: bool  # applied by `rewriter.rewrite` itself
    foreign: tuple[str, ...]  # operators of the pattern that the standard does not have


@dataclass(frozen=True)
class ListedRules:
    rules: tuple[ListedRule, ...]


@dataclass(frozen=True)
class OnnxScriptAuditRequest:
    models: Models


RULES = Task(f"{_ME}:rules", RulesRequest, ListedRules)
AUDIT = Task(f"{_ME}:audit", OnnxScriptAuditRequest, Surveyed)


@RULES.serve
def rules(request: RulesRequest, context: Context) -> ListedRules:
    default = set(default_names())
    listing = []
    for name, rule in all_rules().items():
        text = _stable(str(rule._target_pattern))
        listing.append(ListedRule(name, _where(rule), text, name in default, tuple(_foreign(rule))))
    return ListedRules(tuple(listing))


def _foreign(rule: Any) -> list[str]:
    """Return the operators of the pattern that are not in the ONNX standard: another rule must make them first."""
    import onnx

    nodes = list(rule._target_pattern._nodes)
    named = [(getattr(node.domain, "_value", ""), getattr(node.op, "_value", None)) for node in nodes]
    return sorted({f"{domain}.{op}".strip(".") for domain, op in named if op and (domain or not onnx.defs.has(op))})


def _stable(text: str) -> str:
    """Replace the addresses of unnamed values by numbers, so that the text is the same in every process."""
    numbers = {address: f"v{number}" for number, address in enumerate(dict.fromkeys(_ANONYMOUS.findall(text)))}
    return _ANONYMOUS.sub(lambda found: numbers[found.group()], text)


def _where(rule: Any) -> str:
    """Return the file and line of the rule's replacement function."""
    function = inspect.unwrap(getattr(rule._replacement_pattern, "_function", rule._replacement_pattern))
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return ""
    return f"{code.co_filename.partition('site-packages/')[2] or code.co_filename}:{code.co_firstlineno}"


@AUDIT.serve
def audit(request: OnnxScriptAuditRequest, context: Context) -> Surveyed:
    """Apply each rule alone to each model. Reports the rules that rewrote it, and those whose results are not
    bit-identical."""
    for job in each_job(request.models, context):
        job.answer(_audit_one(job))
    return Surveyed()


def _audit_one(job: SurveyJob) -> SurveySeen:
    import onnx

    data = job.data()
    plain = onnx.load_model_from_string(data)
    operators = {node.op_type for node in plain.graph.node}
    fired, differing = [], {}
    for name, rule in all_rules().items():
        if not may_match(rule, operators):
            continue
        try:
            model = _applied(rule, data)
            if model is None:
                continue
            run = evaluated(model)
            after = [run(arrays) for arrays in job.samples()]
            fired.append(name)
        except Exception as error:
            fired.append(name)
            differing[name] = f"raises {type(error).__name__}: {first_line(str(error))}"
            continue
        if seen := difference(job.expected(), after):
            differing[name] = seen
    return SurveySeen(tuple(fired), tuple(fired), differing)


def _applied(rule: Any, data: bytes) -> Any:
    """Return the model after the rule; None if the rule found nothing to rewrite."""
    import onnx
    from onnxscript import ir
    from onnxscript.rewriter import RewriteRuleSet

    model = ir.serde.deserialize_model(onnx.load_model_from_string(data))
    return (
        rewritten(onnx.load_model_from_string(data), [rule]) if RewriteRuleSet([rule]).apply_to_model(model) else None
    )
