"""Write scripts for bias: no element is wrong by itself, but the errors of many elements lean to one side.

One input may be enough to show that; otherwise the script runs over many inputs, drawn from a seed or written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import indent

from driftline.report.scripts.recipe import INPUTS, Check, Recipe, given_inputs

DRAWN = -1  # the room for literals with which every input is drawn from a seed
SAMPLES = 64  # inputs that are drawn
LIMIT = 6  # standard errors

_GENERATOR = "np.random.default_rng(0)"
_DRIFT = '''\
def drift(pairs):
    """How far the mean of all errors lies from zero, in standard errors: rounding goes up as often as down."""
    errors = np.concatenate([np.ravel({error}) for x, y in pairs])
    errors = errors[np.isfinite(errors)]
    return abs(errors.mean()) / (errors.std() / errors.size**0.5 or 1e-300)
'''


def drift_check(direction: str, recipe: Recipe) -> Check:
    """Return the check that measures the mean error over one input or over many; it does not judge single elements."""
    torch = recipe.flavour == "torch"
    difference = "x.double() - y.double()" if torch else "np.float64(x) - np.float64(y)"
    relative = f"({difference}) / {'y.double()' if torch else 'np.float64(y)'}"
    definition = _DRIFT.format(error=relative if "scale" in direction else difference)
    told = (
        'print("drift in standard errors:", z := drift(pairs))',
        f'sys.exit(f"BUG: a drift of {{z:.1f}} standard errors" if z > {LIMIT} else 0)',
    )
    zipped = "zip(tree_leaves(got), tree_leaves(expected))" if torch else "zip(got, expected)"
    made: tuple[str, ...] = ("got = GOT", "expected = EXPECTED")
    if recipe.samples:
        made = ("pairs = []", "for inputs in samples:", *(f"    {line}" for line in (*made, f"pairs += {zipped}")))
    else:
        made = (*made, f"pairs = list({zipped})")
    imports = ("import sys", "import numpy as np", "from torch.utils._pytree import tree_leaves")
    return Check(imports, (definition,), (*made, *told), (*made, f"assert drift(pairs) < {LIMIT}"))


def with_drawn_inputs(recipe: Recipe) -> Recipe | None:
    """Return the recipe with many inputs drawn from one seed, or None unless the recipe draws all its inputs."""
    given = given_inputs(recipe)
    if _GENERATOR not in given:
        return None
    several = f"samples = [{given.replace(_GENERATOR, 'rng')} for _ in range({SAMPLES})]"
    return _over(replace(recipe, left_out=()), f"rng = {_GENERATOR}", several)


def with_listed_inputs(recipes: Sequence[Recipe]) -> Recipe | None:
    """Merge recipes that differ only in their inputs into one that lists all these inputs; None if some inputs are not
    written out.
    """
    given = [given_inputs(recipe) for recipe in recipes]
    if not all(given) or any(recipe.left_out for recipe in recipes):
        return None
    several = "\n".join(["samples = [", *(indent(f"{text},", "    ") for text in given), "]"])
    return _over(max(recipes, key=lambda recipe: len(recipe.definitions)), several)


def _over(recipe: Recipe, *lines: str) -> Recipe:
    kept = tuple(line for line in recipe.setup if not line.startswith(INPUTS))
    return replace(recipe, imports=(*recipe.imports, "import numpy as np"), setup=(*kept, *lines), samples=True)
