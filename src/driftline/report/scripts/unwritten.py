"""Write scripts for bugs where a compiler returns memory that it never wrote. The script fills new memory, so that it
is not zero by chance.
"""

from __future__ import annotations

from dataclasses import replace

from driftline.execute.new_memory import M_PERTURB, USUAL
from driftline.report.scripts.recipe import Recipe

_FILL = f"ctypes.CDLL(None).mallopt({M_PERTURB}, {USUAL ^ 0xFF:#x})  # glibc: every byte of new memory is {USUAL:#x}"


def with_filled_memory(recipe: Recipe) -> Recipe:
    """Return the recipe with new memory filled with a byte pattern."""
    return replace(recipe, imports=(*recipe.imports, "import ctypes"), setup=(*recipe.setup, _FILL))
