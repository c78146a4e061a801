"""Write the part of a script that decides whether the bug shows, depending on the kind of failure.

A script ends with exit status 1 and a line that starts with `BUG:` if the bug shows, and with 0 if it does not. Wrong
numbers are compared by `elements.py`, with the tolerance of `tolerance.py`; the other kinds are here.
"""

from __future__ import annotations

import re
from enum import StrEnum

from driftline.core.quoting import string
from driftline.core.text import first_line
from driftline.core.verdict import Kind
from driftline.report.scripts.draws import draws_check
from driftline.report.scripts.drift import drift_check
from driftline.report.scripts.elements import element_check, kind_check
from driftline.report.scripts.failure import ShownFailure
from driftline.report.scripts.recipe import Check, Recipe
from driftline.report.scripts.tolerance import tolerance


class WordsIn(StrEnum):
    """The expression in a script in which the words of an error are found."""

    MESSAGE = "str(error)"
    TRACEBACK = "traceback.format_exc()"  # the compiler raises errors of its own around it
    LOG = "log"  # the compiler writes them to stderr, and raises a number


def check_for(failing: ShownFailure, recipe: Recipe, *, told: WordsIn = WordsIn.MESSAGE) -> Check:
    """Return the check for the kind of the failure. `told`: where the error's words are found."""
    kind = failing.kind
    if kind == Kind.BIAS:
        return drift_check(failing.evidence.direction or "scale", recipe)
    if kind == Kind.WRONG_DRAWS:
        return draws_check(failing, recipe)
    if kind in (Kind.CRASH, Kind.TIMEOUT, Kind.OOM):
        return _child(failing, own_process=recipe.own_process)
    if kind == Kind.ERROR:
        return _error(failing, told)
    if kind == Kind.MISSING_ERROR:
        return _missing_error()
    if kind == Kind.WRONG_STRUCTURE or failing.evidence.output.startswith("mutated:"):
        return _structure(failing, recipe)
    if kind in (Kind.WRONG_DTYPE, Kind.WRONG_SHAPE):
        return kind_check(failing, recipe)
    return element_check(failing, recipe, tolerance(failing))


_MADE = ("expected = EXPECTED", "got = GOT")


def _structure(failing: ShownFailure, recipe: Recipe) -> Check:
    """Check for missing or surplus outputs, or for an input that only one side changes."""
    if not failing.evidence.output.startswith("mutated:") or recipe.flavour != "torch":
        test = "assert len(got) == len(expected), f'{len(got)} outputs, expected {len(expected)}'"
        lines = ("try:", f"    {test}", "except AssertionError as error:", '    sys.exit(f"BUG: {error}")')
        return Check(("import sys",), (), (*_MADE, *lines), (*_MADE, test))
    if recipe.inputs != "copy.deepcopy(inputs)":
        return Check(problem="it changes its inputs, and the program's factory is not plain enough to show that")
    made = (
        "mine, theirs = copy.deepcopy(inputs), copy.deepcopy(inputs)",
        f"expected = {recipe.expected.replace(recipe.inputs, 'mine')}",
        f"got = {recipe.got.replace(recipe.inputs, 'theirs')}",
    )
    test = "torch.testing.assert_close(theirs, mine, equal_nan=True)"
    lines = ("try:", f"    {test}", "except AssertionError as error:", '    sys.exit(f"BUG: {error}")')
    shown = ('print("inputs afterwards, expected:", mine)', 'print("inputs afterwards, got:     ", theirs)')
    return Check(("import sys",), (), (*made, *shown, *lines), (*made, test))


def _error(failing: ShownFailure, told: WordsIn) -> Check:
    words = telling_words(failing.message)
    imports = ("import traceback",) if told is WordsIn.TRACEBACK else ()
    lines = ['print("expected:", EXPECTED)', "try:", '    print("got:     ", GOT)', "except Exception as error:"]
    if words and told is WordsIn.LOG:
        lines.append(f"    # The log says why: {words}")
    elif words:
        lines += [f"    if {string(words)} not in {told}:", "        raise"]
    elif failing.ending:  # the message is all numbers and names
        lines += [f"    if type(error).__name__ != {string(failing.ending)}:", "        raise"]
    lines.append('    sys.exit(f"BUG: {type(error).__name__}: {error}")')
    return Check(
        ("import sys", *imports), (), tuple(lines), ("EXPECTED  # runs", "GOT  # raises while the bug is there")
    )


_OUTCOME = """\
def outcome(run):
    try:
        return run()
    except Exception as error:
        return error
"""


def _missing_error() -> Check:
    made = ("expected, got = outcome(lambda: EXPECTED), outcome(lambda: GOT)",)
    shown = ('print("expected:", repr(expected))', 'print("got:     ", repr(got))')
    lines = (
        "if isinstance(expected, Exception) and not isinstance(got, Exception):",
        '    sys.exit("BUG: returns a result where an error is due")',
    )
    test = "assert isinstance(expected, Exception) == isinstance(got, Exception)"
    return Check(("import sys",), (_OUTCOME,), (*made, *shown, *lines), (*made, test))


def _child(failing: ShownFailure, *, own_process: bool = False) -> Check:
    """Check in a child process, since the compiled run may crash, use up all memory, or never end."""
    run = [f"ended = {_CHILD}).returncode"]
    gibibytes = max(1, failing.memory >> 30)
    limit = f"    resource.setrlimit(resource.RLIMIT_DATA, ({gibibytes} << 30, {gibibytes} << 30))"
    if failing.kind == Kind.TIMEOUT:
        ending = f'    sys.exit("BUG: no answer in {failing.timeout:g} s")'
        run = ["try:", f"    {_CHILD}, timeout={failing.timeout:g})", "except subprocess.TimeoutExpired:", ending]
    elif failing.kind == Kind.OOM:
        run += ["if ended:", f'    sys.exit("BUG: {gibibytes} GiB of memory are not enough")']
    else:
        # An exception ends a process with 1, which is another matter than a signal; unless it tells of one.
        died = "ended < 0" if failing.ending.startswith("SIG") and not own_process else "ended"
        run += [f"if {died}:", '    sys.exit(f"BUG: the process ended with {ended}")']
    child = ['if sys.argv[1:] == ["child"]:', '    print("got:     ", GOT)', "    sys.exit(0)"]
    body, definitions = "GOT", []
    if failing.kind == Kind.OOM:
        child.insert(1, "    limit_memory()")
        body, definitions = "(limit_memory(), GOT)", [f"def limit_memory():\n{limit}\n"]
    test = [
        f'child = multiprocessing.get_context("fork").Process(target=lambda: {body})',
        "child.start()",
        f"child.join({failing.timeout:g})",
        "child.kill()",
        "assert child.exitcode == 0",
    ]
    imports = ("import multiprocessing", "import resource", "import subprocess", "import sys")
    lines = (*child, 'print("expected:", EXPECTED, flush=True)', *run)
    return Check(imports, tuple(definitions), lines, tuple(test))


_CHILD = 'subprocess.run([sys.executable, __file__, "child"]'


def telling_words(message: str) -> str:
    """Return the longest piece of an error message without numbers, paths, C++ names and MLIR locations, which vary
    between runs. The first sentence is preferred, since later ones are often about something else.
    """
    line = first_line(message, 2000)
    first = re.split(r"\.(?=\s|[A-Z])", line)[0]
    words = _longest_piece(first)
    return (words if len(words) >= 20 else _longest_piece(line))[:80]


def _longest_piece(text: str) -> str:
    pieces = re.split(r"loc\(\w+\):|\S*(?:\d|/|::)\S*(?: const\b)?", text)
    return max((piece.strip(" :;,.…") for piece in pieces), key=len)
