"""onnxscript's rewriter: a model is rewritten by its rules and then evaluated without further optimisation.

Rules are named as onnxscript spells them in its own modules, below `onnxscript.rewriter.rules` or
`onnxscript.rewriter`: `common.cast_cast_rule`, `ort_fusions.gelu._erf_rule`, with a number for one of a set. What they
make is evaluated by the ONNX project's reference evaluator; operators of ONNX Runtime's own by ONNX Runtime with its
optimisers off.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any
from unittest import mock

import numpy as np

from driftline.backends.base import Backend, Compiled, CompilerPass, Option, Options, PassTrials, Unsupported
from driftline.backends.knobs import Knob
from driftline.backends.onnx_reference import OnnxReference
from driftline.backends.onnxruntime import OnnxRuntime, runner
from driftline.backends.onnxscript_names import short_name, unknown_rule
from driftline.core.errors import DriftlineError, innermost
from driftline.core.quoting import is_identifier
from driftline.core.rule import NO_PASS, ONE_PASS
from driftline.core.script_call import ScriptCall
from driftline.core.target import listed
from driftline.core.tensors import Arrays
from driftline.core.tracker import Tracker
from driftline.programs.onnx.evaluator import make_evaluator
from driftline.programs.onnx.signature import graph_signature
from driftline.programs.opened import OpenedProgram

_ANONYMOUS = re.compile(r"anonymous:\d+")
_STANDARD = ("", "ai.onnx", "ai.onnx.ml")
_MISJUDGED = ("RMSNormalization",)  # the evaluator computes it in half precision, whatever its `stash_type` says


WHOLE_PASSES = ("ir.", "optimizer.", "version.")  # how the names of passes over a whole model begin
_OPSETS = range(19, 26)  # the opsets that onnxscript can convert to
_UNTRIED = {
    "ir.AddInitializersToInputsPass": "changes what the model takes, by design",
    "ir.CheckerPass": "checks the model and changes nothing",
    "ir.ClearMetadataAndDocStringPass": "changes nothing that is computed",
    "ir.RemoveInitializersFromInputsPass": "changes what the model takes, by design",
}


class OnnxScript(Backend):
    name = "onnxscript"
    start_seconds = 1.0
    batch = 60
    accepts = ("onnx",)
    module = "onnxscript"
    distribution = "onnxscript"
    extra = "onnx"
    tracker = Tracker("https://github.com/microsoft/onnxscript/issues")
    arithmetic = "half-accumulation"  # that of the evaluator which runs rewritten models
    options = {
        "rules": Option("the rules to apply, joined with '+'; default: those that `rewriter.rewrite` applies"),
        "skip": Option("rules to leave out, joined with '+'"),
        ONE_PASS: Option(
            "one rule, or a pass over the whole model such as ir.InlinePass, and no other; none: none at all"
        ),
    }

    def validate(self, options: Options, target: str) -> None:
        super().validate(options, target)
        if ONE_PASS in options and (taken := [key for key in ("rules", "skip") if key in options]):
            raise DriftlineError(
                f"Target {target!r}: pass={options[ONE_PASS]} has one pass alone; leave out {taken[0]}=."
            )
        for key in ("rules", "skip", ONE_PASS):
            for name in listed(options, key):
                if key == ONE_PASS and (name == NO_PASS or name.startswith(WHOLE_PASSES)):
                    continue
                if not name.replace(".", "").replace("_", "").isalnum():
                    raise DriftlineError(f"Target {target!r}: {name!r} is not the name of a rule; see patterns list.")
                if "@" not in target and (reason := unknown_rule(name)):  # other releases have other rules
                    raise DriftlineError(f"Target {target!r}: {reason}")

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        """Return a script that rewrites the model and runs it: with the reference evaluator, or with ONNX Runtime for
        its own operators."""
        if framework != "onnx" or "skip" in options:
            return ()
        name = options.get(ONE_PASS, "")
        if name == NO_PASS:
            return OnnxReference().script_calls(framework, {})
        if name.startswith(WHOLE_PASSES):
            return _script_of_pass(name)
        rules = [name] if name else listed(options, "rules")
        if not all(map(_is_rule, rules)):
            return ()
        imports, given = ["from onnxscript.rewriter import rewrite"], []
        for rule in rules:
            *module, name = rule.split(".")
            number = ""
            if name.isdigit():  # of a set
                number, name = f".rules[{name}]", module.pop()
            place = module if module[0] == "ort_fusions" else ["rules", *module]
            imports.append(f"from onnxscript.rewriter.{'.'.join(place)} import {name}")
            given.append(name + number)
        made = f"rewrite(model, [{', '.join(given)}])" if given else "rewrite(model)"
        if not any(rule.startswith("ort_fusions") for rule in rules):
            call = f"reference.ReferenceEvaluator({made}).run(None, inputs)"
            return [ScriptCall(call, imports=tuple(imports), packages=("onnxscript",))]
        (runtime,) = OnnxRuntime().script_calls("onnx", {"opt": "off"})
        packages = ("onnxscript", *runtime.packages)
        return [ScriptCall(f"compiled({made}, inputs)", runtime.text, (*imports, *runtime.imports), packages)]

    def warm(self) -> None:
        import onnx.reference.ops  # noqa: F401
        import onnxscript.rewriter  # noqa: F401

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return evaluated(after_options(program.model(), options))

    def passes(self) -> Sequence[CompilerPass]:
        """Return the passes over a whole model. Rewrite rules are listed by audits instead."""
        return [CompilerPass(name, name.partition(".")[0], _UNTRIED.get(name, "")) for name in whole_passes()]

    def pass_trials(self, program: OpenedProgram) -> PassTrials:
        return _RewriteTrials(self, program)

    def knobs_at_work(self, program: OpenedProgram, options: Options) -> list[Knob]:
        """Return the rules that rewrite this program, or raise on it."""
        if ONE_PASS in options:
            return []
        names = at_work(program.model(), chosen_rules(options))
        return [Knob("skip", name, "rewrite rule", pattern_text(all_rules()[name])) for name in names]

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or OnnxReference().is_rejection(error) or OnnxRuntime().is_rejection(error)


class _RewriteTrials(PassTrials):
    """Compares the graph after one rule or pass with the graph before."""

    def __init__(self, backend: Backend, program: OpenedProgram) -> None:
        super().__init__(backend, program)
        self._operators = {node.op_type for node in program.model().graph.node}

    def changes(self, name: str) -> bool:
        before = self.program.model()
        if name.startswith(WHOLE_PASSES):
            return _as_a_whole(before) != _as_a_whole(after_options(self.program.model(), {ONE_PASS: name}))
        (rule,) = chosen_rules({"rules": name})
        return may_match(rule, self._operators) and bool(at_work(before, [rule]))


def _as_a_whole(model: Any) -> tuple[str, list[tuple[str, int]]]:
    """Return what a pass over a whole model may change: the graph's signature and the opset versions."""
    return graph_signature(model.SerializeToString()), sorted(
        (used.domain, used.version) for used in model.opset_import
    )


def may_match(rule: Any, operators: set[str]) -> bool:
    """True if all output operators of the rule's pattern occur in the model: a quick test before a search."""
    wanted = (getattr(node.op, "_value", None) for node in rule._target_pattern.output_nodes)
    return all(name in operators for name in wanted if isinstance(name, str))


def after_options(model: Any, options: Options) -> Any:
    """Return the model after the rules, or the single pass, that the options name."""
    name = options.get(ONE_PASS, "")
    if name.startswith(WHOLE_PASSES):
        import onnx_ir

        if name not in whole_passes():
            raise Unsupported(f"this version of onnxscript has no pass {name!r}")
        try:
            return onnx_ir.to_proto(whole_passes()[name]()(onnx_ir.from_proto(model)).model)
        except Exception as error:  # as for rules: the pass manager wraps it
            cause = innermost(error)
            if type(cause).__name__ == "VersionConverterError":  # it says what it would need to know
                raise Unsupported(str(cause)) from None
            raise cause from None
    if name:
        return rewritten(model, [] if name == NO_PASS else chosen_rules({"rules": name}))
    return rewritten(model, chosen_rules(options))


def whole_passes() -> dict[str, Callable[[], Any]]:
    """Return the passes over a whole model, by name: those of onnx_ir, constant folding, and conversion to another
    opset."""
    from onnx_ir.passes import common
    from onnxscript import optimizer, version_converter

    found: dict[str, Callable[[], Any]] = {
        f"ir.{name}": value for name, value in vars(common).items() if name.endswith("Pass") and isinstance(value, type)
    }
    found["optimizer.fold_constants"] = lambda: optimizer.fold_constants
    for opset in _OPSETS:
        found[f"version.{opset}"] = partial(version_converter.ConvertVersionPass, opset)
    return found


def _script_of_pass(name: str) -> Sequence[ScriptCall]:
    kind, _, short = name.partition(".")
    made = {
        "ir": ("from onnx_ir.passes import common", f"common.{short}()"),
        "optimizer": ("from onnxscript import optimizer", f"optimizer.{short}"),
        "version": ("from onnxscript import version_converter", f"version_converter.ConvertVersionPass({short})"),
    }
    text, call = made[kind]
    call = f"reference.ReferenceEvaluator(onnx_ir.to_proto({call}(onnx_ir.from_proto(model)).model)).run(None, inputs)"
    return [ScriptCall(call, imports=("import onnx_ir", text), packages=("onnxscript",))]


def _is_rule(name: str) -> bool:
    """True if the text is a dotted name that a script can import, with a number at its end for a rule of a set."""
    module, _, last = name.rpartition(".")
    return "." in name and is_identifier(module if last.isdecimal() else name)


def chosen_rules(options: Options) -> list[Any]:
    """Return the rules that the options select."""
    rules, skipped = all_rules(), listed(options, "skip")
    names = listed(options, "rules") or default_names()
    for name in (*names, *skipped):
        if name not in rules:
            raise Unsupported(f"this version of onnxscript has no rule {name!r}")
    return [rules[name] for name in names if name not in skipped]


def rewritten(model: Any, rules: list[Any]) -> Any:
    """Return the model after the rules, as `onnxscript.rewriter.rewrite` applies them."""
    from onnxscript import rewriter

    if not rules:
        return model
    try:
        return rewriter.rewrite(model, rules)
    except Exception as error:  # a rule may raise anything; the rewriter wraps it in "an error occurred at step 0"
        raise innermost(error) from None


def at_work(model: Any, rules: list[Any]) -> list[str]:
    """Return the names of the rules that match something in a model when they are applied in turn."""
    from onnxscript.rewriter import RewriteRule

    names = {id(rule): name for name, rule in all_rules().items()}
    try_rewrite = RewriteRule.try_rewrite
    seen: dict[str, None] = {}

    def watched(rule: Any, *arguments: Any, **options: Any) -> Any:
        try:
            made = try_rewrite(rule, *arguments, **options)
        except Exception:  # whatever a rule raises, it was at work; the error is judged later
            seen[names[id(rule)]] = None
            raise
        if made is not None:
            seen[names[id(rule)]] = None
        return made

    with mock.patch.object(RewriteRule, "try_rewrite", watched), contextlib.suppress(Exception):
        rewritten(model, rules)
    return list(seen)


def evaluated(model: Any) -> Compiled:
    """Return the model as a function, run by the evaluator that supports its operators."""
    nodes = [node for node in model.graph.node if not _is_function(model, node)]
    if any(node.domain not in _STANDARD or node.op_type in _MISJUDGED for node in nodes):
        return runner(_runtime().session(model.SerializeToString(), {"opt": "off"}))
    evaluator = make_evaluator(model)

    def run(arrays: Arrays) -> Arrays:
        feed = {name: arrays[name] for name in evaluator.input_names if name in arrays}
        with np.errstate(all="ignore"):
            results = evaluator.run(None, feed)
        return {name: np.asarray(value) for name, value in zip(evaluator.output_names, results, strict=True)}

    return run


def pattern_text(rule: Any) -> str:
    """Return the pattern of a rule in one line. Unnamed values, which onnxscript shows by address, get numbers."""
    text = str(rule._target_pattern).partition("{")[2].rpartition("return")[0]
    for number, address in enumerate(dict.fromkeys(_ANONYMOUS.findall(text))):
        text = text.replace(address, f"v{number}")
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def _is_function(model: Any, node: Any) -> bool:
    return any((function.domain, function.name) == (node.domain, node.op_type) for function in model.functions)


def _runtime() -> OnnxRuntime:
    runtime = OnnxRuntime()
    if not runtime.installed().available:
        raise Unsupported("what these rules make needs ONNX Runtime, which is not installed")
    return runtime


@lru_cache(1)
def all_rules() -> dict[str, Any]:
    """Return every rule of the package by name. A rule with several names gets the first."""
    import onnxscript.rewriter as package
    from onnxscript.rewriter import RewriteRule, RewriteRuleSet

    found: dict[int, tuple[str, Any]] = {}
    for module in sorted(m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")):
        if module.endswith("_test") or "testing" in module:
            continue
        for attribute, value in vars(importlib.import_module(module)).items():
            prefix = f"{short_name(module)}.{attribute}"
            if isinstance(value, RewriteRule):
                found.setdefault(id(value), (prefix, value))
            elif isinstance(value, RewriteRuleSet):
                for number, rule in enumerate(value.rules):
                    found.setdefault(id(rule), (f"{prefix}.{number}", rule))
    return dict(found.values())


def default_names() -> list[str]:
    """Return the rules that `rewriter.rewrite` applies by default, in its order."""
    from onnxscript import rewriter

    names = {id(rule): name for name, rule in all_rules().items()}
    return [names[id(rule)] for rule in rewriter._DEFAULT_REWRITE_RULES if id(rule) in names]
