"""How the arguments of operators fit together, with one file for each family of operators."""

from __future__ import annotations

import importlib
from functools import cache

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import FAMILIES, Family

_FILES = (
    "casts", "convolutions", "creation", "indexing", "matrices", "normalisation", "pooling", "quantised",
    "recurrent", "reductions", "sampling", "splitting", "views",
)  # fmt: skip


def fit(call: PatternCall) -> None:
    """Choose arguments that fit together. Operators of no family are treated as elementwise."""
    families().get(call.name, families()["elementwise"])(call)


@cache
def families() -> dict[str, Family]:
    """Import all families and return their table."""
    for name in ("elementwise", *_FILES):
        importlib.import_module(f"{__name__}.{name}")
    return FAMILIES
