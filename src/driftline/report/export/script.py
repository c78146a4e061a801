"""Export a bug as a script or a regression test, each run in a clean process before it is called valid.

There are several ways to write a script; they are tried from the shortest to the longest until one shows the bug. A
valid script must also be able to pass: with correctly rounded results in place of the compiler's it has to exit with 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from driftline.core.quoting import identifier
from driftline.core.verdict import Kind
from driftline.report.export.clean_run import (
    FROM_METADATA,
    HERE,
    CleanRun,
    can_make_environments,
    run_clean,
    run_test_clean,
)
from driftline.report.export.right_results import control_of
from driftline.report.export.same_error import another_error
from driftline.report.export.subject import Subject, release_in
from driftline.report.export.ways import recipes_of
from driftline.report.scripts.check import WordsIn, check_for, telling_words
from driftline.report.scripts.recipe import Check, Recipe
from driftline.report.scripts.render import check_script, regression_test
from driftline.report.scripts.tolerance import tolerance


@dataclass(frozen=True)
class Exported:
    """An exported text, and whether it was seen to show the bug."""

    text: str
    valid: bool
    reason: str  # how it was seen to be valid, or why it is not
    output: str = ""  # the output of the script
    subject: Subject | None = None  # the bug on the numbers that the script has
    control: str = ""  # the same script with right results in the place of the compiler's
    files: Mapping[str, bytes] = field(default_factory=dict)  # that the control reads
    python: str = HERE  # the interpreter that has what the script needs

    @property
    def lines(self) -> int:
        """The number of lines that are not blank."""
        return sum(bool(line.strip()) for line in self.text.splitlines())

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "valid": self.valid,
            "reason": self.reason,
            "output": self.output,
            "lines": self.lines,
        }


def export_script(subject: Subject) -> Exported:
    """Return the shortest script that shows the bug, or the first attempt with the reason why it is not valid."""
    return _export(subject, _try_script, "script")


def export_test(subject: Subject) -> Exported:
    """Return the shortest pytest test that fails because of the bug, or the first attempt with the reason why it is not
    valid.
    """
    return _export(subject, _try_test, "test")


def _export(subject: Subject, attempt: Callable[[Subject, Recipe], Exported], what: str) -> Exported:
    """Return the first valid attempt: first with plain numbers as inputs, then with the original failing inputs."""
    for plain in subject.plainer:
        for recipe in recipes_of(plain):
            tried = attempt(plain, recipe)
            if tried.valid:
                return tried
    first: Exported | None = None
    for recipe in recipes_of(subject):
        tried = attempt(subject, recipe)
        if tried.valid:
            return tried
        first = first or tried
    return first or Exported("", False, f"this program has no form that a {what} can hold")


def _try_script(subject: Subject, recipe: Recipe, told: WordsIn = WordsIn.MESSAGE) -> Exported:
    check = check_for(subject.failing(), recipe, told=told)
    problem = _problem(subject, recipe, check)
    pinned = pins(subject, recipe, check)
    text = check_script(recipe, check, (subject.title,), pinned) if recipe.got and check.lines else ""
    if problem:
        return Exported(text, False, problem)
    python, where = _interpreter(subject, recipe)
    ran = run_clean(text, python=python)
    if not ran.shows_bug and told is not WordsIn.LOG and _tells_of_error(subject, ran):
        return _try_script(subject, recipe, WordsIn.LOG if told is WordsIn.TRACEBACK else WordsIn.TRACEBACK)
    control = control_of(subject, recipe)
    sound_text = check_script(control.recipe, check, (), pinned)
    tried = Exported(text, False, "", ran.output + ran.errors, subject, sound_text, control.files, python)
    if not ran.shows_bug:
        return replace(tried, reason=_why_not(subject, ran), output=ran.output)
    if told is WordsIn.MESSAGE and (other := another_error(subject, ran.errors)):
        return replace(tried, reason=other)
    if unsure := _not_separated(subject):
        return replace(tried, reason=unsure)
    sound = run_clean(sound_text, python=python, files=control.files)
    if sound.status != 0:
        problem = f"with {control.words} in the compiler's place it should end with 0, but {sound.ending}"
        return replace(tried, reason=problem)
    told_of = f"run in {where}: it shows the bug, exit status 1; with {control.words} in its place it ends with 0"
    return replace(tried, valid=True, reason=told_of)


def _try_test(subject: Subject, recipe: Recipe) -> Exported:
    check = check_for(subject.failing(), recipe)
    problem = _problem(subject, recipe, check)
    if not problem and subject.environment:
        problem = f"it needs {subject.environment.requirement}, and tests are run with what is installed"
    name = identifier(subject.bug.id)
    title = (subject.title, f"Found by Driftline as {subject.bug.id}.")
    pinned = pins(subject, recipe, check)
    text = regression_test(recipe, check, name, title, pinned) if recipe.got and check.test else ""
    if problem:
        return Exported(text, False, problem)
    ran = run_test_clean(text)
    control = control_of(subject, recipe)
    sound_text = regression_test(control.recipe, check, name)
    tried = Exported(text, False, "", ran.output, subject, sound_text, control.files)
    if ran.status != 1 or "1 failed" not in ran.output:
        return replace(tried, reason=_why_not(subject, ran))
    if subject.kind == Kind.ERROR and telling_words(subject.failing().message) not in ran.output:
        return replace(tried, reason="another error comes than the one of its title")
    if unsure := _not_separated(subject):
        return replace(tried, reason=unsure)
    if run_test_clean(sound_text, files=control.files).status != 0:
        return replace(tried, reason=f"with {control.words} in the compiler's place it should pass, and does not")
    return replace(tried, valid=True, reason="run in a clean process: it fails, as long as the bug is there")


def _not_separated(subject: Subject) -> str:
    """Return a sentence if no tolerance separates right from wrong results in the script, otherwise an empty string."""
    if subject.kind != Kind.WRONG_VALUE or tolerance(subject.failing()).separates:
        return ""
    return "no tolerance lets a correctly rounded result pass and shows the bug"


def pins(subject: Subject, recipe: Recipe, check: Check) -> list[str]:
    """Return `name==version` for each package that the script imports."""
    arrays = ("numpy",) if "import numpy as np" in (*recipe.imports, *check.imports) else ()
    packages = tuple(dict.fromkeys((*recipe.packages, *arrays)))
    return [f"{name}=={version}" for name, version in subject.versions(packages).items()]


def _interpreter(subject: Subject, recipe: Recipe) -> tuple[str, str]:
    """Return the interpreter that can run the script and a description of it: this one, an existing environment with
    the other release, or one that uv makes.
    """
    environment = subject.environment
    if environment is None:
        return HERE, "a clean process"
    if all(release_in(environment, package) for package in recipe.packages):
        return environment.python, f"a clean process with {environment.requirement}"
    return FROM_METADATA, "an environment made from its metadata"


def _problem(subject: Subject, recipe: Recipe, check: Check) -> str:
    """Return the reason why the script cannot be run, or an empty string."""
    if not recipe.got:
        return f"{subject.target} has no call that is short enough for a script"
    if check.problem:
        return check.problem
    if recipe.files:
        return "it reads a file of this machine; driftline reduce makes a program that can be written out"
    if _interpreter(subject, recipe)[0] != FROM_METADATA:
        return ""
    if "torch" in recipe.packages:
        return f"it needs torch beside {subject.target}, an environment that is not made for this"
    if not can_make_environments():
        return f"uv is needed to run it with {subject.target}; install it with: pip install uv"
    return ""


def _tells_of_error(subject: Subject, ran: CleanRun) -> bool:
    """True if the expected error appears in the output of the script, for instance as the cause of another error or in
    a log.
    """
    words = telling_words(subject.failing().message)
    return subject.failing().kind == Kind.ERROR and bool(words) and words in ran.errors


def _why_not(subject: Subject, ran: CleanRun) -> str:
    """Explain why a script that was run does not show the bug."""
    if ran.status == 0 and subject.after_another_call:
        return "it ends with 0: the bug shows in a later call, which driftline replay makes"
    if ran.status == 0:
        return "it ends with 0: the bug does not show when it is run by itself"
    return ran.ending
