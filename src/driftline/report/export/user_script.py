"""Export the bug of a user's script that calls the compiler itself: as a script, an issue and a test.

If the difference shows in what the script prints or how it exits, a few lines before the script run it twice, without
the compiler and with it, and compare. Otherwise the script is left unchanged below a comment that describes the
difference. Either text is run before it is called valid.
"""

from __future__ import annotations

import ast
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import driftline
from driftline.checking.result import ReplayAnswer
from driftline.core.evidence import Evidence
from driftline.core.quoting import cell, code, comment, fenced, identifier, markdown, shell, string
from driftline.core.target import Target
from driftline.core.tracker import PYTORCH
from driftline.execute.environments import require_environment
from driftline.report.export.clean_run import HERE, run_clean
from driftline.report.export.issue import processor, system
from driftline.report.export.script import Exported
from driftline.report.titles import title_of
from driftline.scenarios.difference import Change
from driftline.scenarios.keeping import DIFFERENCES
from driftline.scenarios.target import AS_IT_STANDS, BACKEND_NAMES
from driftline.store import Bug, Finding

# What another run of a text says of the bug, and why
AskAgain = Callable[[str, Target], tuple[ReplayAnswer, str]]

_OTHER_BACKEND = """\
import torch

_compile = torch.compile


def _with_backend(model=None, **options):
    options = {name: value for name, value in options.items() if name not in ("backend", "mode", "options")}
    return _compile(model, backend=BACKEND, **options)


torch.compile = _with_backend
"""
_TWICE = """\
import os
import subprocess
import sys

if "STANCE" not in os.environ:  # run this file without the compiler and with it, and compare
    eager, compiled = (
        subprocess.run([sys.executable, __file__], env={**os.environ, "STANCE": stance}, capture_output=True, text=True)
        for stance in ("force_eager", "default")
    )
    for name, run in (("eager", eager), ("compiled", compiled)):
        print(f"{name} ends with {run.returncode} and prints:", run.stdout, run.stderr[-2000:], sep="\\n")
    alike = (eager.returncode, eager.stdout) == (compiled.returncode, compiled.stdout)
    sys.exit(0 if alike else "BUG: compiled, the script prints something else or ends in another way")

import torch

torch.compiler.set_stance(os.environ["STANCE"])
"""
_IN_NUMBERS = (Change.VALUE,)  # rounding may change the printed text


@dataclass(frozen=True)
class UserScriptBug:
    """A bug of a user's script with the script's text, its target, and the function that runs the check again."""

    bug: Bug
    finding: Finding
    text: str
    target: Target
    ask: AskAgain

    @property
    def title(self) -> str:
        return f"{self.bug.fingerprint.backend}: {title_of(self.bug)}"

    @property
    def differences(self) -> Sequence[Mapping[str, Any]]:
        return self.finding.verdict.get(DIFFERENCES) or ()

    @property
    def version(self) -> str:
        """The release of torch that showed the bug."""
        return str(self.finding.execution.get("version") or "")

    def with_backend(self) -> str:
        """Return the script with the target's backend in place of its own."""
        name = BACKEND_NAMES.get(self.target.backend)
        return self.text if name is None else _in_front(_OTHER_BACKEND.replace("BACKEND", string(name)), self.text)

    def head(self) -> str:
        """Return comments with the title and the differences."""
        told = [self.title, f"Found by Driftline {driftline.__version__} as {self.bug.id}, torch {self.version}."]
        told += [f"- {one['sentence']}" for one in self.differences]
        return "".join(f"# {comment(line)}\n" for line in told)


def export_user_script(bug: UserScriptBug) -> Exported:
    """Return a script that compares by itself if that shows the bug, otherwise the user's script below a comment."""
    alone = _comparing(bug)
    if alone is not None and alone.valid:
        return alone
    text = bug.head() + bug.with_backend()
    return _checked(bug, text, text)


def export_user_test(bug: UserScriptBug) -> Exported:
    """Return a pytest test that calls `driftline.check_script`."""
    name = identifier(bug.bug.id)
    text = f'''{bug.head()}import driftline

SCRIPT = {_literal(bug.text)}


def test_{name}(tmp_path):
    path = tmp_path / "{name}.py"
    path.write_text(SCRIPT, encoding="utf-8")
    found = driftline.check_script(path, targets=[{string(str(bug.target))}], store=tmp_path / "store")
    assert found.compared and not found.failed, found.results[0].reason
'''
    return _checked(bug, text, bug.text, bug.target)


def export_user_issue(bug: UserScriptBug) -> Exported:
    """Return the text of an issue for PyTorch."""
    script = export_user_script(bug)
    heading, versions = PYTORCH.sections[0][0], PYTORCH.sections[-1][0]
    lines = [f"# {markdown(bug.title)}", "", f"### {heading}", ""]
    lines += [*(f"- {markdown(one['sentence'])}" for one in bug.differences), ""]
    lines += ["| | eager | compiled |", "|---|---|---|", *map(_row, bug.differences), ""]
    if not script.valid:
        lines += [f"**This script is not valid: {markdown(script.reason)}.**", ""]
    lines += ["### Minimal reproducer", "", fenced(script.text.rstrip(), "python"), ""]
    if script.output.strip():
        lines += ["### Output", "", fenced(script.output.strip()), ""]
    lines += [f"### {versions}", "", f"torch {markdown(bug.version)}", f"Python {platform.python_version()}"]
    lines += [system(), processor(), ""]
    lines.append(
        f"Found with Driftline {driftline.__version__} ({code(bug.bug.id)}):"
        f" {code(shell(['driftline', 'check', 'SCRIPT.py', '--targets', bug.target]))}."
    )
    return Exported("\n".join(lines) + "\n", script.valid, script.reason, script.output)


def _row(one: Mapping[str, Any]) -> str:
    evidence = Evidence.from_json(one.get("evidence") or {})
    first = evidence.first
    eager, got = (first.expected, first.got) if first else (one["expected"], one["got"])
    place = f"{one['path']}{list(first.place) if first and first.place else ''}"
    return f"| {cell(place or one['event_kind'])} | {cell(str(eager))} | {cell(str(got))} |"


def _comparing(bug: UserScriptBug) -> Exported | None:
    """Return the script with a comparison in front of it, or None if numbers differ, since rounding may change printed
    numbers.
    """
    if not bug.differences or bug.differences[0]["kind"] in _IN_NUMBERS:
        return None
    text = bug.head() + _in_front(_TWICE, bug.with_backend())
    python = require_environment(("torch",), bug.target.version).python if bug.target.version else HERE
    ran = run_clean(text, python=python)
    tried = Exported(text, False, ran.ending, ran.output + ran.errors, python=python)
    if not ran.shows_bug:
        return tried
    control = run_clean(text.replace('("force_eager", "default")', '("force_eager", "force_eager")', 1), python=python)
    if control.status != 0:
        return Exported(text, False, f"without the compiler it should end with 0, but {control.ending}", ran.output)
    told = "run in a clean process: it shows the bug, exit status 1; without the compiler it ends with 0"
    return Exported(text, True, told, ran.output + ran.errors, python=python)


def _checked(bug: UserScriptBug, text: str, script: str, target: Target | None = None) -> Exported:
    """Return the text as an `Exported`, valid if running `script` on the target shows the bug again."""
    target = target or Target(AS_IT_STANDS, bug.target.version)
    answer, reason = bug.ask(script, target)
    if answer is ReplayAnswer.STILL_FAILS:
        return Exported(text, True, "checked again by itself: it differs from eager in the same way")
    return Exported(text, False, f"checked again by itself, it {_ANSWERS[answer]}: {reason}")


_ANSWERS = {
    ReplayAnswer.PASSES: "does what eager does",
    ReplayAnswer.FIXED: "does what eager does",
    ReplayAnswer.DIFFERS: "differs in another way",
}


def _in_front(lines: str, text: str) -> str:
    """Insert lines before the first statement of the script, after its docstring and its imports from `__future__`."""
    last = 0
    for number, node in enumerate(ast.parse(text).body):
        docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        last = node.end_lineno or last
    own = text.split("\n")
    return "\n".join([*own[:last], lines, *own[last:]])


def _literal(text: str) -> str:
    """Return a Python literal of several lines that evaluates to the text."""
    if "'''" not in text and "\\" not in text and not text.endswith("'") and text.isascii():
        return f"'''\\\n{text}'''"
    return "(\n" + "".join(f"    {string(line)}\n" for line in text.splitlines(keepends=True)) + ")"
