"""How a script decides whether a bug shows: the test that fits the kind of failure.

A script ends with exit status 1 and a line that starts with `BUG:` when it shows, and with 0 when it does not. Where no
tolerance is needed there is none; where one is, it is that of torch's own tests if the bug is larger than that, else a
part of the error that was measured.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from driftline.core.evidence import Evidence
from driftline.core.quoting import string
from driftline.core.tensors import is_float
from driftline.core.text import first_line
from driftline.core.verdict import Kind
from driftline.report.scripts.drift import drift_check
from driftline.report.scripts.recipe import Check, Recipe

LINE = 120  # characters
# torch.testing.assert_close: relative and absolute tolerance
DEFAULTS = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


class WordsIn(StrEnum):
    """Where the words of an error are found, as an expression."""

    MESSAGE = "str(error)"
    TRACEBACK = "traceback.format_exc()"  # the compiler raises errors of its own around it
    LOG = "log"  # the compiler writes them to stderr, and raises a number


@dataclass(frozen=True)
class ShownFailure:
    """What is known of a failure, as far as a script needs it."""

    kind: str
    evidence: Evidence
    message: str = ""  # of an exception
    dtype: str = "float32"  # of the output that is wrong
    timeout: float = 300.0
    ending: str = ""  # how a process died: SIGSEGV, or exit code 3
    memory: int = 8 << 30  # bytes that it might use
    outputs: int = 0  # how many there are; 0: not known


@dataclass(frozen=True)
class ScriptTolerance:
    """How far apart two results may be, and where the number comes from."""

    rtol: float
    atol: float
    remark: str

    @property
    def is_default(self) -> bool:
        return "default" in self.remark


def tolerance(failing: ShownFailure) -> ScriptTolerance:
    """Generous: rounding stays below it, the bug stands above it."""
    if not is_float(failing.dtype) and not failing.dtype.startswith("complex"):
        return ScriptTolerance(0.0, 0.0, "exact: no rounding is involved")
    rtol, atol = DEFAULTS.get(failing.dtype, DEFAULTS["float32"])
    found = failing.evidence
    error = _number(found.error)
    size = abs(_number(found.first.expected)) if found.first else 0.0
    noise = _number(found.sigma) or _number(found.allowed) / 8
    allowed = atol + rtol * (size if math.isfinite(size) else 0.0)
    if not error or (error > 2 * allowed and 8 * noise <= allowed):
        return ScriptTolerance(rtol, atol, "the defaults of torch.testing.assert_close")
    bound = _one_digit(error / 3)
    return ScriptTolerance(
        0.0, bound, f"a third of the error of {error:.2g}; rounding moves this element by {noise:.1g}"
    )


def check_for(failing: ShownFailure, recipe: Recipe, *, told: WordsIn = WordsIn.MESSAGE) -> Check:
    """The check that fits a failure. `told`: where an error says what went wrong."""
    kind, torch = failing.kind, recipe.flavour == "torch"
    if kind == Kind.BIAS:
        return drift_check(failing.evidence.direction or "scale", recipe)
    if kind in (Kind.CRASH, Kind.TIMEOUT, Kind.OOM):
        return _child(failing, own_process=recipe.own_process)
    if kind == Kind.ERROR:
        return _error(failing, told)
    if kind == Kind.MISSING_ERROR:
        return _missing_error()
    if kind == Kind.WRONG_STRUCTURE or failing.evidence.output.startswith("mutated:"):
        return _structure(failing, recipe)
    return (_torch_check if torch else _numpy_check)(failing, tolerance(failing))


_SHOWN = (
    'print("expected:", expected := EXPECTED)',
    'print("got:     ", got := GOT)',
)
_MADE = ("expected = EXPECTED", "got = GOT")


def _torch_check(failing: ShownFailure, allowed: ScriptTolerance) -> Check:
    kind = failing.kind
    leaves = "from torch.utils._pytree import tree_leaves"
    imports: tuple[str, ...] = (leaves,)
    definitions: tuple[str, ...] = ()
    says = {Kind.WRONG_ZERO_SIGN: "zeros of the wrong sign. ", Kind.WRONG_NONFINITE: "NaN or Inf in the wrong places. "}
    if kind in (Kind.WRONG_DTYPE, Kind.WRONG_SHAPE):
        what = "dtype" if kind == Kind.WRONG_DTYPE else "shape"
        sides = [f"[x.{what} for x in tree_leaves({side})]" for side in ("got", "expected")]
        same = f"{sides[0]} == {sides[1]}"
        shown = (*_SHOWN, f"same = {same}", f'sys.exit(0 if same else "BUG: another {what}")')
        return Check(("import sys", leaves), (), shown, (*_MADE, f"assert {same}"))
    if kind == Kind.WRONG_ZERO_SIGN:
        sides = [f"[x.signbit() for x in tree_leaves({side})]" for side in ("got", "expected")]
        test = [f"torch.testing.assert_close({sides[0]}, {sides[1]})"]
    elif kind == Kind.WRONG_NONFINITE and _finite_on_one_side(failing.evidence):
        imports = ("from torch.utils._pytree import tree_map",)
        sides = [f"tree_map(torch.isfinite, {side})" for side in ("got", "expected")]
        test = [f"torch.testing.assert_close({sides[0]}, {sides[1]})"]
    elif kind == Kind.WRONG_NONFINITE:
        definitions = ("def special(x):\n    return torch.where(x.isfinite(), 0, x)  # nothing but NaN and Inf\n",)
        imports = ("from torch.utils._pytree import tree_map",)
        test = ["torch.testing.assert_close(tree_map(special, got), tree_map(special, expected), equal_nan=True)"]
    else:
        imports = ()
        close = f"got, expected, {_limits(allowed)}, equal_nan=True"
        test = [f"# {allowed.remark}", f"torch.testing.assert_close({close})"]
    lines = ["try:", *(f"    {line}" for line in test), "except AssertionError as error:"]
    lines.append(f'    sys.exit(f"BUG: {says.get(Kind(kind), "")}{{error}}")')
    return Check(("import sys", *imports), definitions, (*_SHOWN, *lines), (*_MADE, *test))


def _numpy_check(failing: ShownFailure, allowed: ScriptTolerance) -> Check:
    """`x` is what the compiler gives and `y` what is right. numpy takes a list of one array for that array."""
    kind, one = failing.kind, failing.outputs == 1
    remark, says = "", "wrong values"
    if kind in (Kind.WRONG_DTYPE, Kind.WRONG_SHAPE):
        what = "dtype" if kind == Kind.WRONG_DTYPE else "shape"
        same, says = f"x.{what} == y.{what}", f"another {what}"
    elif kind == Kind.WRONG_NONFINITE:
        same, says = "np.array_equal(np.isfinite(x), np.isfinite(y))", "NaN or Inf in the wrong places"
        if not _finite_on_one_side(failing.evidence):
            same = "np.array_equal(np.where(np.isfinite(x), 0, x), np.where(np.isfinite(y), 0, y), equal_nan=True)"
    elif kind == Kind.WRONG_ZERO_SIGN:
        same, says = "np.array_equal(np.signbit(x), np.signbit(y))", "zeros of the wrong sign"
    elif not allowed.rtol and not allowed.atol:
        same = "np.array_equal(x, y)" if one else "np.array_equal(x, y, equal_nan=True)"  # another one may have NaN
    else:
        same = f"np.allclose(x, y, {_limits(allowed)}, equal_nan=True)"
        remark = f"# {allowed.remark}"
    if one:
        sides = ("got[0]", "expected[0]") if kind in (Kind.WRONG_DTYPE, Kind.WRONG_SHAPE) else ("got", "expected")
        same = re.sub(r"\b[xy]\b", lambda side: sides["xy".index(side[0])], same)
        test = [f"assert {same}"]
        lines = [f'sys.exit(0 if {same} else "BUG: {says}")']
    if not one or len(lines[0]) > LINE:
        made = f"same = {same}" if one else f"same = all({same} for x, y in zip(got, expected, strict=True))"
        test = [made, "assert same"]
        lines = [made, f'sys.exit(0 if same else "BUG: {says}")']
    first = [remark] if remark else []
    return Check(("import sys", "import numpy as np"), (), (*_SHOWN, *first, *lines), (*_MADE, *first, *test))


def _finite_on_one_side(evidence: Evidence) -> bool:
    """At the place that was written down: is one of the two values finite and the other not?"""
    first = evidence.first
    return first is not None and math.isfinite(first.expected) != math.isfinite(first.got)


def _structure(failing: ShownFailure, recipe: Recipe) -> Check:
    """Outputs missing or surplus, or an input that is changed on one side only."""
    if not failing.evidence.output.startswith("mutated:") or recipe.flavour != "torch":
        test = "assert len(got) == len(expected), f'{len(got)} outputs, expected {len(expected)}'"
        lines = ("try:", f"    {test}", "except AssertionError as error:", '    sys.exit(f"BUG: {error}")')
        return Check(("import sys",), (), (*_SHOWN, *lines), (*_MADE, test))
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
    """The compiled run may take its process with it, use up all memory, or never end: it gets a process of its own."""
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
    """The longest piece of a message without numbers, paths, names of C++ and places in MLIR, which change from run to
    run. What comes after the first sentence is often about something else."""
    line = first_line(message, 2000)
    first = re.split(r"\.(?=\s|[A-Z])", line)[0]
    words = _longest_piece(first)
    return (words if len(words) >= 20 else _longest_piece(line))[:80]


def _longest_piece(text: str) -> str:
    pieces = re.split(r"loc\(\w+\):|\S*(?:\d|/|::)\S*(?: const\b)?", text)
    return max((piece.strip(" :;,.…") for piece in pieces), key=len)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 0.0


def _limits(allowed: ScriptTolerance) -> str:
    numbers = (f"{value:g}".replace("e-0", "e-") for value in (allowed.rtol, allowed.atol))
    return "rtol={}, atol={}".format(*numbers)


def _one_digit(value: float) -> float:
    return float(f"{value:.0e}")
