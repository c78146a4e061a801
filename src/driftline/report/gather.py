"""From a store to the view. Whatever a finding lacks (older stores, lost objects) leaves a gap, never an error."""

from __future__ import annotations

import ast
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import driftline
from driftline.core.case import Case
from driftline.core.errors import StoreError
from driftline.core.program import Program, SourceBundle
from driftline.core.tensors import Arrays
from driftline.core.text import first_line, tail
from driftline.core.verdict import Status
from driftline.generate.parts import AFTER_ANOTHER_CALL
from driftline.programs.render import render_script
from driftline.report import words
from driftline.report.explained import explained_so_far
from driftline.report.kinship import with_likeness
from driftline.report.layers import view_of
from driftline.report.mismatch import describe_tensor, from_arrays, from_evidence, is_ordinary
from driftline.report.program import reduced_text
from driftline.report.results import replay_command
from driftline.report.tested import environment_of, hunts_of, statistics_of
from driftline.report.view import (
    FIXED,
    FLAKY,
    KNOWN,
    OPEN,
    BlamedRule,
    Bug,
    Comparison,
    Explanation,
    LayerView,
    Mismatch,
    Report,
)
from driftline.store import Bug as StoredBug
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses
from driftline.store.hunts import HuntLog

_GROUPS = {Status.KNOWN: KNOWN, Status.FLAKY: FLAKY, Status.FIXED: FIXED}
_ORDER = {OPEN: 0, KNOWN: 1, FLAKY: 2, FIXED: 3}
SCRIPT = 12_000  # characters of tensors that a script in a report may hold
LOG = 6_000
_ONE_CALL = (
    "# A first call is right, and this script makes no other: driftline replay makes a second one, which is wrong."
)


def gather(path: Path) -> Report:
    """Everything a report says of the store in `path`."""
    with Store.open(path) as store:
        return gather_store(store)


def gather_store(store: Store) -> Report:
    """The same, of a store that is open already."""
    log = HuntLog(store)
    hunts = hunts_of(log)
    sightings = log.sightings() if hunts else {}
    bugs = [_bug(store, store.bug(bug.id), sightings.get(bug.id, 0)) for bug in store.bugs()]
    statistics = statistics_of(log, hunts) if hunts else None
    bugs.sort(key=lambda bug: (_ORDER[bug.group], bug.severity, -bug.sightings, bug.compiler, bug.id))
    bugs = with_likeness(bugs)
    return Report(
        str(store.path),
        _now(),
        driftline.__version__,
        words.verdict_line(bugs, statistics),
        environment_of(hunts, bugs),
        tuple(bugs),
        statistics,
    )


def compare(before: Path, after: Path) -> Comparison:
    """What came, went and stays between two stores. A bug counts as the same when its fingerprint is."""
    first, second = gather(before), gather(after)
    old = {bug.id: bug for bug in first.bugs if bug.group != FIXED}
    now = {bug.id: bug for bug in second.bugs}
    was_fixed = {bug.id for bug in first.bugs if bug.group == FIXED}
    new = [bug for name, bug in now.items() if name not in old and bug.group not in (FIXED, KNOWN)]
    still = [bug for name, bug in now.items() if name in old and bug.group != FIXED]
    fixed = [bug for name, bug in old.items() if name not in now or now[name].group == FIXED]
    shown = {bug.id for bugs in (new, still, fixed) for bug in bugs}
    new, still, fixed = ([_among(shown, bug) for bug in bugs] for bugs in (new, still, fixed))
    notes = {bug.id: "it was fixed and is back" for bug in new if bug.id in was_fixed}
    notes |= {bug.id: "marked as fixed" if bug.id in now else "not seen again" for bug in fixed}
    verdict = words.compare_line(len(new), len(fixed), len(still))
    made, version = second.made, second.driftline
    return Comparison(str(before), str(after), made, version, verdict, tuple(new), tuple(fixed), tuple(still), notes)


def _among(shown: set[str], bug: Bug) -> Bug:
    """The bug, without a word of one that is not shown."""
    return bug if bug.like is None or bug.like.bug in shown else replace(bug, like=None)


def _bug(store: Store, bug: StoredBug, seen: int) -> Bug:
    finding = bug.findings[0]
    verdict, execution = finding.verdict, finding.execution
    evidence = verdict.get("evidence") or {}
    known = verdict.get("known") or {}
    failure = execution.get("failure") or {}
    case = _case(store, finding.case_id)
    index = evidence.get("sample") or 0
    sample = case.samples[index] if case and index < len(case.samples) else None
    arrays = sample.arrays if sample else {}
    operators = operators_of(case.runs) if case else ()
    kind, stage, compiler = bug.fingerprint.kind, bug.fingerprint.stage, bug.fingerprint.backend
    program = case.runs.name if case else "(its program is lost)"
    severity = words.severity(kind, is_ordinary(arrays))
    group = _GROUPS.get(bug.status, OPEN)
    runs = verdict.get("failed_runs") or (0, 0)
    elsewhere = verdict.get("other_inputs") or (0, 0)
    blame, reference = str(verdict.get("blame") or ""), case.program.name if case and case.deployed else ""
    return Bug(
        id=bug.id,
        title=str(known.get("title") or "")
        or words.title(compiler, kind, stage, operators, program, str(failure.get("type") or "")),
        group=KNOWN if known.get("url") and group == OPEN else group,
        status=str(bug.status),
        severity=severity,
        severity_name=words.SEVERITIES[severity],
        compiler=compiler,
        target=finding.target,
        versions=_versions(bug),
        kind=kind,
        stage=stage,
        reason=words.reason_with(blame, str(verdict.get("reason") or bug.summary), reference),
        fingerprint=bug.fingerprint.detail,
        operators=operators,
        program=program,
        form=case.runs.form if case else "",
        framework=case.runs.framework if case else "",
        script=str(verdict.get("script") or "") or (_script(case, arrays, finding.target) if case else ""),
        origin=sample.origin if sample else "",
        inputs=tuple(describe_tensor(name, array) for name, array in arrays.items()),
        mismatch=None if failure else _mismatch(store, verdict.get("artifacts") or {}, evidence),
        replay=replay_command(bug.id, store.path),
        sightings=max(seen, len(bug.findings)),
        first_seen=bug.first_seen,
        last_seen=bug.last_seen,
        failed_runs=(int(runs[0]), int(runs[1])),
        blame=blame,
        others={str(target): str(said) for target, said in (verdict.get("others") or {}).items()},
        other_inputs=(int(elsewhere[0]), int(elsewhere[1])),
        known_title=str(known.get("title") or ""),
        known_url=str(known.get("url") or ""),
        known_note=str(known.get("note") or ""),
        failure=": ".join(str(failure[key]) for key in ("type", "message") if failure.get(key)),
        traceback=tail(words.uncoloured(str(failure.get("traceback") or "")), LOG),
        log=tail(words.uncoloured(str(execution.get("log") or "")), LOG),
        durations={name: float(seconds) for name, seconds in (execution.get("durations") or {}).items()},
        rule=_rule(verdict),
        explanation=_explanation(store, bug.id),
        reference=reference,
        layers=_layers(store, bug.id),
    )


def _explanation(store: Store, bug_id: str) -> Explanation | None:
    found = explained_so_far(store, bug_id)
    diagnosis = Diagnoses(store).of(bug_id, "diagnose") or {}
    if not found.results and not diagnosis:
        return None
    reduction = found.results.get("reduce", {})
    steps = tuple(
        f"{step['seconds']:.0f} s, {step['queries']} candidates: {step['what']}" for step in reduction.get("steps", ())
    )
    return Explanation(
        sentences=tuple(diagnosis.get("summary") or map(words.sentence, found.sentences())),
        reduced=found.reduced,
        nearest=reduced_text(reduction, "nearest") if reduction.get("nearest") else "",
        python=found.python,
        ended=str(reduction.get("ended") or ""),
        steps=steps,
    )


def _layers(store: Store, bug_id: str) -> LayerView | None:
    body = Diagnoses(store).of(bug_id, "layers")
    return view_of(body) if body else None


def _rule(verdict: Mapping[str, Any]) -> BlamedRule | None:
    rule = verdict.get("rule")
    if not rule:
        return None
    proof = str(verdict.get("without") or "")
    return BlamedRule(str(rule["name"]), str(rule["where"]), str(verdict.get("mutation") or ""), proof)


def _case(store: Store, case_id: str) -> Case | None:
    try:
        return store.load_case(case_id)
    except StoreError:
        return None


def _script(case: Case, arrays: Arrays, target: str) -> str:
    options = case.options
    if case.deployed:
        return ""  # two programs, each with its weights: driftline replay runs them
    try:
        text = render_script(case.program, arrays, target, grad=options.grad, seed=options.seed, room=SCRIPT)
        return f"{_ONE_CALL}\n{text}" if any(AFTER_ANOTHER_CALL in name for name in case.program.operators) else text
    except Exception as error:  # a damaged model, or no onnx to read it with: the rest of the report is as good
        return f"# This program cannot be printed: {type(error).__name__}: {first_line(str(error))}\n"


def _mismatch(store: Store, artifacts: Mapping[str, str], evidence: Mapping[str, Any]) -> Mismatch | None:
    if "expected" in artifacts and "got" in artifacts:
        try:
            expected, got = store.load_tensors(artifacts["expected"]), store.load_tensors(artifacts["got"])
        except (StoreError, OSError, ValueError):
            return from_evidence(evidence)
        return from_arrays(expected, got, evidence) or from_evidence(evidence)
    return from_evidence(evidence)


def _versions(bug: StoredBug) -> tuple[str, ...]:
    return tuple(dict.fromkeys(v for finding in bug.findings if (v := finding.execution.get("version"))))


def operators_of(program: Program) -> tuple[str, ...]:
    """In the order of the program, each once; read from the text when nobody listed them."""
    if program.operators or program.form != "source":
        return tuple(dict.fromkeys(program.operators))
    try:
        bundle = SourceBundle.load(program.path.read_bytes())
        tree = ast.parse(bundle.text)
    except (OSError, ValueError, KeyError, SyntaxError):
        return ()
    factory = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == bundle.entry_name), None)
    bodies = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node is not factory]
    names = [_operator_name(node) for body in bodies for node in ast.walk(body)]
    if not any(names) and factory:
        lambdas = [node for node in ast.walk(factory) if isinstance(node, ast.Lambda)]
        names = [_operator_name(node) for made in lambdas for node in ast.walk(made)]
        names += [_returned_name(node) for node in ast.walk(factory)]
    return tuple(dict.fromkeys(name for name in names if name))


_SIGNS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "FloorDiv": "floor_divide", "Mod": "remainder",
    "Pow": "pow", "MatMult": "matmul",
}  # fmt: skip
_HOUSEHOLD = ("tensor", "register_buffer", "from_numpy", "to", "manual_seed", "eval", "Parameter")


def _operator_name(node: ast.AST) -> str:
    """`relu` of F.relu(x) or x.relu(), `mul` of 2 * x; nothing for what is no operator."""
    if isinstance(node, ast.BinOp):
        return _SIGNS.get(type(node.op).__name__, "")
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    root: ast.expr = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    name = node.func.attr
    if name.startswith("_") or name in _HOUSEHOLD or (isinstance(root, ast.Name) and root.id in ("np", "self")):
        return ""
    return name


def _returned_name(node: ast.AST) -> str:
    """A factory without functions beside it returns an operator or a layer: `return torch.maximum, (x, y)`."""
    if not isinstance(node, ast.Return) or not isinstance(node.value, ast.Tuple):
        return ""
    made = node.value.elts[0]
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        inner = made.func.value
        made = inner if isinstance(inner, ast.Call) else made.func
    return made.attr if isinstance(made, ast.Attribute) else ""


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
