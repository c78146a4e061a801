"""Write scripts for random numbers: one fact of each call, such as a mean, over many seeds on both sides."""

from __future__ import annotations

import re

from driftline.report.scripts.failure import ShownFailure
from driftline.report.scripts.recipe import Check, Recipe

SEEDS = 48
APART = 0.65  # two samples of one distribution are so far apart once in 300 million times

_NUMBER = "{o}.double()"
_TOGETHER = "together({one}, {other})"
# The fact in words, and as an expression for the outputs `o` of a call and `n` of the next one.
_FACTS = (
    (r"mean", _NUMBER + ".mean()"),
    (r"standard deviation", _NUMBER + ".std(correction=0)"),
    (r"smallest number", _NUMBER + ".min()"),
    (r"largest number", _NUMBER + ".max()"),
    (r"median", _NUMBER + ".quantile(0.5)"),
    (r"share of zeros", "({o} == 0).double().mean()"),
    (r"share of numbers that the next call repeats", "(({o} == {n}) & ({o} != 0)).double().mean()"),
    (r"correlation with the next call", _TOGETHER.format(one="{o}", other="{n}")),
    (
        r"correlation of neighbours along axis (?P<axis>\d+)",
        _TOGETHER.format(
            one="{o}.narrow({axis}, 0, {o}.shape[{axis}] - 1)", other="{o}.narrow({axis}, 1, {o}.shape[{axis}] - 1)"
        ),
    ),
    (r"correlation with output (?P<k>\d+)", _TOGETHER.format(one="{o}", other="o[{k}]")),
    (r"share of zeros in common with output (?P<k>\d+)", "(({o} == 0) & (o[{k}] == 0)).double().mean()"),
)
_SAME_SEED = '''\
def drawn(run):
    """The outputs of a call with a given seed."""
    torch.manual_seed(7)
    return tree_leaves(run())
'''
_CORRELATION = '''\
def together(one, other):
    """The correlation of all elements; 0 if one tensor is constant."""
    pairs = torch.stack([one.double().ravel(), other.double().ravel()])
    return torch.corrcoef(pairs)[0, 1].nan_to_num()
'''
_OVER_SEEDS = '''\
def facts(run):
    """The {words} of output {index}, once for each seed."""
    found = []
    for seed in range({seeds}):
        torch.manual_seed(seed)
        o, n = tree_leaves(run()), tree_leaves(run())
        found.append({expression}.item())
    return sorted(found)
'''
_IMPORTS = ("import sys", "import torch", "from torch.utils._pytree import tree_leaves")


def draws_check(failing: ShownFailure, recipe: Recipe) -> Check:
    """Return the check of the fact in which the compiler's random numbers differ, or of a seed that fixes nothing."""
    if recipe.flavour != "torch":
        return Check(problem="only a torch program can show its random numbers in a script")
    if not failing.evidence.output:
        made: tuple[str, ...] = ("one = drawn(lambda: GOT)", "other = drawn(lambda: GOT)")
        test = "all(torch.equal(x, y) for x, y in zip(one, other))"
        told = f'sys.exit(0 if {test} else "BUG: the same seed gives other numbers")'
        return Check(_IMPORTS, (_SAME_SEED,), (*made, told), (*made, f"assert {test}"))
    words, index = failing.evidence.direction, failing.index or 0
    expression = _expression(words, index)
    if not expression:
        return Check(problem=f"a script cannot measure the {words}")
    defined: tuple[str, ...] = (_OVER_SEEDS.format(words=words, index=index, seeds=SEEDS, expression=expression),)
    if "together(" in expression:
        defined = (_CORRELATION, *defined)
    made = (
        "expected = facts(lambda: EXPECTED)",
        "got = facts(lambda: GOT)",
        "apart = max(abs(sum(x <= y for x in expected) - sum(x <= y for x in got)) for y in expected + got)",
    )
    lines = (
        f'print("median expected:", expected[{SEEDS // 2}], "got:", got[{SEEDS // 2}])',
        "# The largest difference of the two distributions: Kolmogorov and Smirnov's test with a chance below 1e-8.",
        f'sys.exit("BUG: the random numbers are distributed otherwise" if apart > {round(APART * SEEDS)} else 0)',
    )
    return Check(_IMPORTS, defined, (*made, *lines), (*made, f"assert apart <= {round(APART * SEEDS)}"))


def _expression(words: str, index: int) -> str:
    for pattern, expression in _FACTS:
        if found := re.fullmatch(pattern, words):
            return expression.format(o=f"o[{index}]", n=f"n[{index}]", **found.groupdict())
    return ""
