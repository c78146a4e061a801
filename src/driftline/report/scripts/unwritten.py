"""Scripts for memory that a compiler returns without having written it, where new memory must not be zero by chance."""

from __future__ import annotations

from dataclasses import replace

from driftline.execute.new_memory import M_PERTURB, USUAL
from driftline.report.scripts.recipe import Recipe

_FILL = f"ctypes.CDLL(None).mallopt({M_PERTURB}, {USUAL ^ 0xFF:#x})  # glibc: every byte of new memory is {USUAL:#x}"


def with_filled_memory(recipe: Recipe) -> Recipe:
    """The same script, in which new memory holds a number that is no zero."""
    return replace(recipe, imports=(*recipe.imports, "import ctypes"), setup=(*recipe.setup, _FILL))
