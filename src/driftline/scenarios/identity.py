"""The identity and title of the bug that a failing script shows, derived from the fields of its first difference."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import re
import tokenize
from dataclasses import replace

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.execution import Stage
from driftline.core.identity import MOST_OPERATORS
from driftline.core.short_numbers import short_pair, telling_element
from driftline.core.spelling import spelled_alike
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.core.verdict import Fingerprint, Kind
from driftline.programs.operators import operator_names, operators_in
from driftline.scenarios.difference import SHARING, Change, Difference, spoken
from driftline.scenarios.judge import ScriptResult
from driftline.scenarios.script import UserScript
from driftline.scenarios.target import backend_at_fault

LONGEST_TITLE = 160
# Differences whose kind is that of an ordinary failure; every other one is `Kind.WRONG_STATE`.
_KINDS = {
    Change.VALUE: Kind.WRONG_VALUE,
    Change.CONTENTS: Kind.WRONG_VALUE,
    Change.DTYPE: Kind.WRONG_DTYPE,
    Change.SHAPE: Kind.WRONG_SHAPE,
    **dict.fromkeys(
        (Change.DEVICE, Change.LAYOUT, Change.CLASS, Change.SIZE, Change.MISSING, Change.SURPLUS), Kind.WRONG_STRUCTURE
    ),
    Change.ERROR: Kind.ERROR,
    Change.OTHER_ERROR: Kind.ERROR,
    Change.MISSING_ERROR: Kind.MISSING_ERROR,
    Change.CRASH: Kind.CRASH,
}
_ROOT = re.compile(r"(output|input|self|global|closure|class)\b")
_FIXED = ("mode ", "random state ")  # paths that are the same in every script
_NO_OPERATORS = frozenset(("compile", "graphbreak", "disable", "reset", "setstance", "allowingraph", "iscompiling"))


def fingerprint(result: ScriptResult) -> Fingerprint:
    """Return the identity of a failure: the compiler and the first difference, without the script's own names and
    numbers."""
    first = result.differences[0]
    backend = backend_at_fault(Target.parse(result.target), result.backends)
    return Fingerprint(backend, str(stage_of(first)), str(kind_of(first)), _detail(first, result.script))


def kind_of(one: Difference) -> Kind:
    """Return the kind of failure that a difference is counted as."""
    return _KINDS.get(one.change, Kind.WRONG_STATE)


def stage_of(one: Difference) -> Stage:
    """Return COMPILE if the compiler raised an exception of its own, else RUN."""
    by_compiler = one.raised is not None and one.raised.by_compiler
    return Stage.COMPILE if by_compiler and one.change is not Change.MISSING_ERROR else Stage.RUN


def title_of_difference(one: Difference) -> str:
    """Return a one-line title for a difference."""
    element = telling_element(one.evidence.worst, one.evidence.fault)
    told = one.sentence
    if one.change is Change.VALUE and element:
        right, came = short_pair(element.expected, element.got)
        told = f"{one.when}, {spoken(one.path)} has {came} where {right} is right"
    elif one.change is Change.VALUE and one.path:
        told = f"{one.when}, {spoken(one.path)} is wrong"
    return first_line(told.replace("`", ""), LONGEST_TITLE)


def evidence_of(one: Difference) -> Evidence:
    """Return the evidence for a difference: the oracle's, or the expected and the actual text."""
    output = one.path if _ROOT.match(one.path) else ""
    if one.evidence != NOTHING:
        return replace(one.evidence, output=one.evidence.output or output)
    if one.change is Change.CRASH:
        return Evidence(stage=str(Stage.RUN), signal=one.got)
    if one.raised and one.change is not Change.MISSING_ERROR:
        return Evidence(stage=str(stage_of(one)), exception=one.raised.name, said=one.raised.message)
    wanted, came = ((text,) if text else () for text in (one.expected, one.got))
    return Evidence(output=output, wanted=wanted, came=came)


def operators_of_script(script: UserScript) -> tuple[str, ...]:
    """Return the names that the functions of a script call, in order, without those of `torch.compile` and related
    functions."""
    tree = ast.parse(script.text)
    named = operators_in(script.text, "") or [
        name for node in ast.walk(tree) if isinstance(node, ast.Lambda) for name in operator_names(node)
    ]
    return tuple(dict.fromkeys(name for name in named if not spelled_alike([name]) <= _NO_OPERATORS))


def _detail(one: Difference, script: UserScript) -> str:
    raised = f" {one.raised.name}" if one.raised else ""
    place = " & ".join(sorted(_place(part) for part in one.path.split(SHARING))) if one.path else ""
    where = f" at {place}" if place else ""
    return f"{one.change}{raised}{where}, {one.kind} in {_operators(script)}"


def _place(path: str) -> str:
    """Return the root of a path, such as `gradient of self`, because names and numbers vary between scripts."""
    if path.startswith(_FIXED):
        return path
    found = _ROOT.match(path)
    root = found[0] if found else "value"
    return f"gradient of {root}" if re.search(r"\.grad\b", path) else root


def _operators(script: UserScript) -> str:
    names = sorted(spelled_alike(operators_of_script(script)))
    if 0 < len(names) <= MOST_OPERATORS:
        return "+".join(names)
    return f"script {_digest_of_code(script.text)[:12]}"


def _digest_of_code(text: str) -> str:
    """Return a digest of the script that ignores comments and empty lines."""
    lines = text.split("\n")
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    code = "\n".join(line.rstrip() for line in lines if line.strip())
    return hashlib.sha256(code.encode()).hexdigest()
