"""Passes of XLA and fusions of TensorFlow Lite as rules: those that `backends/pass_texts.toml` describes.

Their source is not available. Their ids are the names by which the compiler reports that they are active.
"""

from __future__ import annotations

from collections.abc import Mapping

from driftline.backends import BACKENDS
from driftline.backends.pass_texts import HLO, TABLES, TFLITE, pass_texts
from driftline.campaign.check.forms import form_of
from driftline.checking.batch import Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.errors import BackendUnavailable
from driftline.core.rule import FUSION, ONE_PASS, PASS, Rule
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.generate.llm import CHANGE
from driftline.llm.rules import RuleText

DESCRIBED = tuple(TABLES)  # the compilers that have such passes
_GROUPS = {HLO: "HLO passes", TFLITE: "converter fusions"}


def pass_rules(compiler: str, options: Mapping[str, str] | None = None) -> list[Rule]:
    """Return the described passes of a compiler that may change a program under these options."""
    options = options or {}
    table, texts = TABLES[compiler], pass_texts(compiler)
    if compiler == "xla":
        if options.get("jit") == "off":
            return []
        left_out, only = options.get("disable", "").split("+"), options.get(ONE_PASS, "")
        texts = {name: one for name, one in texts.items() if name not in left_out and (not only or name == only)}
    kind = FUSION if table == TFLITE else PASS
    return [Rule(name, compiler, _GROUPS[table], name, kind, text=one.words) for name, one in texts.items()]


def listed_passes(compiler: str) -> tuple[str, list[Rule]]:
    """Return the release of a compiler and its described passes."""
    backend = BACKENDS.get(compiler)
    if reason := backend.installed().reason:
        raise BackendUnavailable(f"--compilers {compiler}: {reason}.")
    return backend.version(), pass_rules(compiler)


def find_pass(name: str) -> Rule | None:
    """Return the pass of this name, or None. `xla/fusion` selects the compiler if several have a pass of that name."""
    rules = [rule for compiler in DESCRIBED for rule in pass_rules(compiler)]
    whole = [rule for rule in rules if name == f"{rule.compiler}/{rule.name}"]
    return next(iter([*whole, *(rule for rule in rules if name == rule.name)]), None)


def pass_text(rule: Rule) -> RuleText:
    """Return the description of a pass as a language model is shown it."""
    form = form_of(BACKENDS.get(rule.compiler))
    assert form
    return RuleText("", words=rule.text, form=form)


def firing_program(pool: Pool, rule: Rule) -> str:
    """Return the example for the pass, if it makes the pass active on this release; else an empty string."""
    form = pass_text(rule).form
    program = pass_texts(rule.compiler)[rule.name].program(form)
    if not program or not BACKENDS.get(rule.compiler).installed().available:
        return ""
    request = ProgramRequest("llm", rule.id, 0, ("random",), "shown", text=program, mode=CHANGE)
    with Screening(pool, form) as screening:
        (result,) = screening.screen([request], Target(rule.compiler))
    return program if rule.id in result.behaviour else ""
