"""Compare results element by element in a script. The script prints the index of a few wrong elements and their count,
never whole tensors.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass, replace

from driftline.core.evidence import Evidence, Number
from driftline.core.verdict import Kind
from driftline.report.scripts.failure import Leeway, ShownFailure
from driftline.report.scripts.recipe import Check, Recipe, odd_numbers
from driftline.report.scripts.tolerance import ScriptTolerance

_SEVERAL = "Every result that is right at these elements; the others may have several right results, too."
_OTHER_CHOICES = "it compares choices, such as the index of a maximum, where others are as good"
SHOWN = 5  # wrong elements
LONE_OUTPUT = "output"  # the name of a result that is a tensor by itself
_OUTPUT_KEY = re.compile(r"""["']output["']|\boutput\b *[=:]""")  # of a dict or of an object, which gives that name too
_TORCH_IMPORTS = ("import sys", "import torch", "from torch.utils._pytree import tree_leaves")
_NUMPY_SPECIAL = "def special(x):\n    return np.where(np.isfinite(x), 0, x)  # nothing but NaN and Inf\n"
_TORCH_SPECIAL = "def special(x):\n    return torch.where(x.isfinite(), 0, x)  # nothing but NaN and Inf\n"


@dataclass(frozen=True)
class _Words:
    """The expressions of one library (torch or numpy) that a comparison is written with."""

    module: str
    leaves: str  # the list of all outputs; a place for an expression
    output: str  # one output; places for an expression and the index
    wide: str  # behind a tensor of a dtype that the comparison does not take
    element: str  # behind an element that is printed
    size: str
    imports: tuple[str, ...]
    special: str


def element_check(failing: ShownFailure, recipe: Recipe, allowed: ScriptTolerance) -> Check:
    """Return the check of the wrong output, or of all outputs if it is not known which one is wrong."""
    words = _words(recipe, failing.dtype)
    remark = () if failing.kind != Kind.WRONG_VALUE or allowed.is_exact else (f"# {allowed.remark}",)
    definitions = (words.special,) if _compares_special(failing) else ()
    if (index := failing.index) is not None and failing.leeway and failing.leeway.right:
        return _check_of_places(failing, failing.leeway, recipe, allowed)
    problem = _OTHER_CHOICES if failing.leeway and not failing.leeway.right else ""
    if index is not None:
        wide = words.wide if failing.dtype.startswith(("bfloat", "float8", "float4")) else ""
        words = replace(words, output="{}") if is_one_tensor(failing, recipe) else words
        listed = _listed(recipe.expected, index)
        made = (
            f"expected = {listed or words.output.format('EXPECTED', index)}{wide}",
            f"got = {words.output.format('GOT', index)}{wide}",
        )
        test = _wrong("got", "expected", failing, words, allowed)
        lines = (
            *made,
            *remark,
            f"wrong = {words.module}.argwhere({test})",
            f"for i in map(tuple, wrong[:{SHOWN}].tolist()):",
            f'    print(f"{{list(i)}}: expected {{expected[i]{words.element}}}, got {{got[i]{words.element}}}")',
            f'sys.exit(f"BUG: {{len(wrong)}} of {{got.{words.size}}} elements {_says(failing)}" if len(wrong) else 0)',
        )
        return Check(words.imports, definitions, lines, (*made, *remark, f"assert not ({test}).any()"), problem)
    every = tuple(f"{name} = {words.leaves.format(side)}" for name, side in (("expected", "EXPECTED"), ("got", "GOT")))
    wide = "" if allowed.is_exact else words.wide  # outputs may differ in their dtypes
    test = _wrong(f"x{wide}", f"y{wide}", failing, words, allowed)
    pairs = "zip(got, expected, strict=True)"
    lines = (
        *every,
        *remark,
        "count = 0",
        f"for at, (x, y) in enumerate({pairs}):",
        f"    wrong = {words.module}.argwhere({test})",
        f"    for i in map(tuple, wrong[:{SHOWN}].tolist()):",
        f'        print(f"output {{at}} {{list(i)}}: expected {{y[i]{words.element}}}, got {{x[i]{words.element}}}")',
        "    count += len(wrong)",
        f'sys.exit(f"BUG: {{count}} elements {_says(failing)}" if count else 0)',
    )
    tested = (f"for x, y in {pairs}:", f"    assert not ({test}).any()")
    return Check(words.imports, definitions, lines, (*every, *remark, *tested), problem)


def _check_of_places(failing: ShownFailure, leeway: Leeway, recipe: Recipe, allowed: ScriptTolerance) -> Check:
    """Return the check of the wrong elements alone, each with all results that it may have."""
    words = _words(recipe, failing.dtype)
    output = "{}" if is_one_tensor(failing, recipe) else words.output
    wide = words.wide if failing.dtype.startswith(("bfloat", "float8", "float4")) else ""
    right = {place: _apart(numbers, allowed) for place, numbers in leeway.right.items()}
    exact = allowed.is_exact
    test = "got[i].item() not in right[i]" if exact else "not any(alike(got[i].item(), x) for x in right[i])"
    near = f"math.isclose(x, y, rel_tol={allowed.rtol:g}, abs_tol={allowed.atol:g}) or (x != x and y != y)  # NaN, too"
    definitions = () if exact else (f"def alike(x, y):\n    return {near}\n",)
    listed = [f"    {place}: [{', '.join(map(str, numbers))}]," for place, numbers in right.items()]
    made = (
        *odd_numbers(listed),
        f"# {_SEVERAL}",
        "\n".join(("right = {", *listed, "}")),
        f"got = {output.format('GOT', failing.index)}{wide}",
        *(() if exact or failing.kind != Kind.WRONG_VALUE else (f"# {allowed.remark}",)),
        f"wrong = [i for i in right if {test}]",
    )
    lines = (
        *made,
        "for i in wrong:",
        """    print(f"{list(i)}: expected {' or '.join(map(str, right[i]))}, got {got[i].item()}")""",
        f'sys.exit(f"BUG: {{len(wrong)}} of {{len(right)}} elements {_says(failing)}" if wrong else 0)',
    )
    return Check((*words.imports, "import math"), definitions, lines, (*made, "assert not wrong"))


def _apart(numbers: tuple[Number, ...], allowed: ScriptTolerance) -> list[Number]:
    """Return the numbers without those that the tolerance does not tell from an earlier one."""
    kept: list[Number] = []
    for number in numbers:
        same = (math.isclose(number, x, rel_tol=allowed.rtol, abs_tol=allowed.atol) for x in kept)
        if not any(same):
            kept.append(number)
    return kept


def is_one_tensor(failing: ShownFailure, recipe: Recipe) -> bool:
    """True if a torch program returns a single tensor that is not in a list or a dict."""
    named = any(_OUTPUT_KEY.search(text) for text in recipe.definitions)
    wrapped = recipe.expected.startswith("tree_leaves(") or "with_gradients" in recipe.expected + recipe.got
    lone = [name for name in failing.expected if not name.startswith("mutated:")] == [LONE_OUTPUT]
    return recipe.flavour == "torch" and lone and not named and not wrapped


def _listed(expression: str, index: int) -> str:
    """Return the source of one result if the results are written out as a list, otherwise an empty string."""
    parsed = ast.parse(expression, mode="eval").body
    if not isinstance(parsed, ast.List) or index >= len(parsed.elts):
        return ""
    return ast.get_source_segment(expression, parsed.elts[index]) or ""


def kind_check(failing: ShownFailure, recipe: Recipe) -> Check:
    """Return the check that compares the dtypes or the shapes of all outputs."""
    what = "dtype" if failing.kind == Kind.WRONG_DTYPE else "shape"
    words = _words(recipe)
    one = f"tuple(x.{what})" if what == "shape" else f"x.{what}"
    made = tuple(
        f"{name} = [{one} for x in {words.leaves.format(side)}]"
        for name, side in (("expected", "EXPECTED"), ("got", "GOT"))
    )
    shown = ('print("expected:", *expected)', 'print("got:     ", *got)')
    ending = f'sys.exit(0 if got == expected else "BUG: another {what}")'
    return Check(words.imports, (), (*made, *shown, ending), (*made, "assert got == expected"))


def _words(recipe: Recipe, dtype: str = "float32") -> _Words:
    is_complex = dtype.startswith("complex")
    if recipe.flavour == "torch":
        leaves = "{}" if recipe.expected.startswith("tree_leaves(") else "tree_leaves({})"
        wide = ".to(torch.complex128)" if is_complex else ".double()"
        return _Words("torch", leaves, f"{leaves}[{{}}]", wide, ".item()", "numel()", _TORCH_IMPORTS, _TORCH_SPECIAL)
    plain = "onnx" in recipe.packages or recipe.expected.startswith("[")  # else arrays of TensorFlow or JAX
    leaves = "{}" if plain else "[np.asarray(x) for x in {}]"
    output = "{}[{}]" if plain else "np.asarray({}[{}])"
    wide = f".astype(np.{'complex128' if is_complex else 'float64'})"
    return _Words("np", leaves, output, wide, "", "size", ("import sys", "import numpy as np"), _NUMPY_SPECIAL)


def _wrong(got: str, expected: str, failing: ShownFailure, words: _Words, allowed: ScriptTolerance) -> str:
    """Return an expression that is true where an element is wrong."""
    module, kind = words.module, failing.kind
    if kind == Kind.WRONG_ZERO_SIGN:
        return f"({expected} == 0) & ({module}.signbit({got}) != {module}.signbit({expected}))"
    if _compares_special(failing):
        return f"~{module}.isclose(special({got}), special({expected}), equal_nan=True)"
    if kind == Kind.WRONG_NONFINITE:
        return f"{module}.isfinite({got}) != {module}.isfinite({expected})"
    if allowed.is_exact and failing.index is not None:
        return f"{got} != {expected}"
    if allowed.is_exact:  # another output may have NaN
        same = f"({got} != {got}) & ({expected} != {expected})"
        return f"({got} != {expected}) & ~({same})"
    return f"~{module}.isclose({got}, {expected}, {allowed.text}, equal_nan=True)"


def _compares_special(failing: ShownFailure) -> bool:
    """True if a NaN stands in place of an infinity, or an infinity has the wrong sign; then NaN and Inf themselves are
    compared.
    """
    return failing.kind == Kind.WRONG_NONFINITE and not _finite_on_one_side(failing.evidence)


def _finite_on_one_side(evidence: Evidence) -> bool:
    """True if exactly one of the expected and the actual value is finite."""
    first = evidence.first
    return first is not None and math.isfinite(first.expected) != math.isfinite(first.got)


def _says(failing: ShownFailure) -> str:
    says = {
        Kind.WRONG_ZERO_SIGN: "are zeros of the wrong sign",
        Kind.WRONG_NONFINITE: "have NaN or Inf in the wrong places",
    }
    return says.get(Kind(failing.kind), "are wrong")
