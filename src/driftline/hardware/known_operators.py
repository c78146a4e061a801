"""Names of operators in a profile that no operator of torch has: most likely misspelt, and then never held against
anything. Profiles are read without torch; this is asked where a graph is there."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache

from driftline.core.text import did_you_mean
from driftline.hardware.constraint import patterns, settings
from driftline.hardware.profile import Profile


def unknown_operators(profile: Profile) -> list[str]:
    """One sentence for each name that matches nothing. Operators of libraries that are not loaded are unknown too."""
    return [
        f"{profile.name}: no operator of torch is called {name!r} ([{key}] {where}).{did_you_mean(name, _operators())}"
        for key, where, name in _named(profile)
        if not _matches(name)
    ]


def _named(profile: Profile) -> Iterator[tuple[str, str, str]]:
    """Every name of an operator: the constraint, the setting, and the name."""
    for constraint in profile.constraints:
        for one in settings(type(constraint)):
            if one.name == "only" or one.metadata["read"] is patterns:
                yield from ((constraint.key, one.name, name) for name in getattr(constraint, one.name))


@cache
def _matches(name: str) -> bool:
    short = name.rpartition(".")[2]
    if "*" not in short:
        return short in _operators()
    return any(fnmatchcase(known, short) for known in _operators())


@cache
def _operators() -> frozenset[str]:
    """As graphs name them: those of ATen, and functions and methods of torch."""
    import operator

    import torch

    schemas = (schema.name.partition("::")[2] for schema in torch._C._jit_get_all_schemas())
    names = {*schemas, *dir(torch), *dir(torch.Tensor), *dir(torch.nn.functional), *dir(operator)}
    return frozenset(known for name in names for known in (name, name.strip("_")))
