"""The script and the regression test of a bug, each run in a clean process before it is called valid.

Several ways of writing a script are tried, the shortest first; the first that shows the bug is taken. It must also be
able to tell that there is no bug: with the right result in place of the compiler's it has to end with 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from driftline.core.quoting import identifier
from driftline.core.tensors import Arrays
from driftline.core.verdict import Kind
from driftline.programs.literals import UNPACK
from driftline.report.export.clean_run import (
    FROM_METADATA,
    HERE,
    CleanRun,
    can_make_environments,
    run_clean,
    run_test_clean,
)
from driftline.report.export.subject import Subject, release_in
from driftline.report.scripts.calls import script_calls
from driftline.report.scripts.check import WordsIn, check_for, telling_words
from driftline.report.scripts.drift import DRAWN, with_drawn_inputs, with_listed_inputs
from driftline.report.scripts.later_call import later_call_recipe
from driftline.report.scripts.recipe import ROOM, Check, Recipe
from driftline.report.scripts.recipe_onnx import onnx_recipe, with_literal_expectation
from driftline.report.scripts.recipe_torch import without_onednn
from driftline.report.scripts.render import check_script, make_recipe, regression_test


@dataclass(frozen=True)
class Exported:
    """A text, and whether it does what it says."""

    text: str
    valid: bool
    reason: str  # how it was seen to be valid, or why it is not
    output: str = ""  # what it prints

    @property
    def lines(self) -> int:
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
    """The shortest script that shows the bug; the first attempt, with the reason, when none does."""
    first: Exported | None = None
    for recipe in _recipes(subject):
        tried = _try_script(subject, recipe)
        if tried.valid:
            return tried
        first = first or tried
    return first or Exported("", False, "this program has no form that a script can hold")


def export_test(subject: Subject) -> Exported:
    """The same as a test for pytest."""
    first: Exported | None = None
    for recipe in _recipes(subject):
        tried = _try_test(subject, recipe)
        if tried.valid:
            return tried
        first = first or tried
    return first or Exported("", False, "this program has no form that a test can hold")


class Way(Protocol):
    """One way to write a script; without room, large tensors are drawn from a seed."""

    def __call__(self, *, room: int) -> Recipe: ...


def _recipes(subject: Subject) -> Iterator[Recipe]:
    """Ways to write it, the best first. The last ones are for what oneDNN gets wrong in eager as well."""
    if subject.pooled:
        recipes = list(_pooled_recipes(subject))
    elif subject.after_another_call:
        recipes = list(_later_recipes(subject)) or list(_single_recipes(subject))
    else:
        recipes = [*_single_recipes(subject), *_later_recipes(subject)]
    plain = [without_onednn(recipe) for recipe in recipes if recipe.flavour == "torch"]
    yield from (*recipes, *plain)


def _single_recipes(subject: Subject) -> Iterator[Recipe]:
    for make in _ways(subject, subject.arrays):
        recipe = make(room=ROOM)
        if UNPACK in recipe.definitions:  # many values: perhaps any will do
            drawn = make(room=0)
            yield replace(drawn, left_out=())
        if not recipe.left_out:
            yield recipe


def _pooled_recipes(subject: Subject) -> Iterator[Recipe]:
    """Over many inputs: any that a seed gives, or else those of the finding."""
    samples = [list(_ways(subject, sample.arrays)) for sample in subject.case.samples]
    for ways in zip(*samples, strict=True):
        drawn = with_drawn_inputs(ways[0](room=DRAWN))
        listed = with_listed_inputs([make(room=ROOM // len(ways)) for make in ways])
        yield from (recipe for recipe in (drawn, listed) if recipe)


def _later_recipes(subject: Subject) -> Iterator[Recipe]:
    """With calls before the one that fails: the one right before it alone, or all of them. What an error ended is not
    known to be of one call."""
    case, options, samples = subject.case, subject.case.options, subject.case.samples
    program = subject.converted or case.program
    unknown = subject.after_another_call and not subject.evidence.sample
    for index in range(1, len(samples)) if unknown else [subject.evidence.sample or 0]:
        for start in sorted({0, max(0, index - 1)}, reverse=True) if 0 < index < len(samples) else ():
            calls = samples[start : index + 1]
            made = later_call_recipe(program, calls, subject.target, grad=options.grad, seed=options.seed)
            yield from [made] if made else []


def _ways(subject: Subject, arrays: Arrays) -> Iterator[Way]:
    case, target = subject.case, subject.target
    program, expected = case.program, {} if subject.pooled else subject.expected
    written_out = partial(make_recipe, grad=case.options.grad, seed=case.options.seed)
    if subject.converted:
        # The compiler's maintainers want the model, not the framework that it came from.
        model = partial(onnx_recipe, subject.converted, arrays, target)
        if expected:
            yield partial(_with_literals, model, expected)
        yield model
    if subject.rewritten and not subject.pooled:
        written = subject.rewritten
        yield partial(written_out, written.program, written.samples[0].arrays, target, own_inputs=True)
    for call in (*script_calls(target, program.framework),) or (None,):
        if program.form == "source" and not subject.pooled and (subject.reduction or _is_example(subject)):
            yield partial(written_out, program, arrays, target, own_inputs=True, call=call)
        yield partial(written_out, program, arrays, target, call=call)
    if expected and program.form == "onnx":
        yield partial(_with_literals, partial(make_recipe, program, arrays, target), expected)


def _with_literals(make: Way, expected: Arrays, *, room: int) -> Recipe:
    return with_literal_expectation(make(room=room), expected)


def _is_example(subject: Subject) -> bool:
    index = subject.evidence.sample or 0
    return subject.case.samples[index].origin == "example"


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
    if not ran.shows_bug:
        return Exported(text, False, _why_not(subject, ran), ran.output)
    control = check_script(replace(recipe, got=recipe.expected), check, (), pinned)
    sound = run_clean(control, python=python)
    if sound.status != 0:
        problem = f"with the right result in the compiler's place it should end with 0, but {sound.ending}"
        return Exported(text, False, problem, ran.output)
    return Exported(text, True, f"run in {where}: it shows the bug, exit status 1", ran.output + ran.errors)


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
    if ran.status != 1 or "1 failed" not in ran.output:
        return Exported(text, False, _why_not(subject, ran), ran.output)
    control = regression_test(replace(recipe, got=recipe.expected), check, name)
    sound = run_test_clean(control)
    if sound.status != 0:
        return Exported(text, False, "with the right result in the compiler's place it should pass, and does not")
    return Exported(text, True, "run in a clean process: it fails, as long as the bug is there", ran.output)


def pins(subject: Subject, recipe: Recipe, check: Check) -> list[str]:
    """The exact versions of what the script imports."""
    arrays = ("numpy",) if "import numpy as np" in (*recipe.imports, *check.imports) else ()
    packages = tuple(dict.fromkeys((*recipe.packages, *arrays)))
    return [f"{name}=={version}" for name, version in subject.versions(packages).items()]


def _interpreter(subject: Subject, recipe: Recipe) -> tuple[str, str]:
    """What can run the script, and that in words: this interpreter, one that has the other release, or uv makes one."""
    environment = subject.environment
    if environment is None:
        return HERE, "a clean process"
    if all(release_in(environment, package) for package in recipe.packages):
        return environment.python, f"a clean process with {environment.requirement}"
    return FROM_METADATA, "an environment made from its metadata"


def _problem(subject: Subject, recipe: Recipe, check: Check) -> str:
    """Why there is nothing to run."""
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
    """Did the script end with the right error, inside another one that the compiler raised because of it, or in what it
    wrote before?"""
    words = telling_words(subject.failing().message)
    return subject.failing().kind == Kind.ERROR and bool(words) and words in ran.errors


def _why_not(subject: Subject, ran: CleanRun) -> str:
    if ran.status == 0 and subject.after_another_call:
        return "it ends with 0: the bug shows in a later call, which driftline replay makes"
    if ran.status == 0:
        return "it ends with 0: the bug does not show when it is run by itself"
    return ran.ending
