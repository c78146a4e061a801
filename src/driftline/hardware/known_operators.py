"""Finds operator names in a profile that match no operator of torch: probably misspelt, so that the constraint would
never apply. Profiles are read without torch, so this check waits until a graph is available."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache

from driftline.core.text import did_you_mean
from driftline.hardware.constraint import patterns, settings
from driftline.hardware.profile import Profile


def unknown_operators(profile: Profile) -> list[str]:
    """Return one sentence for each name that matches no operator. Operators of unloaded libraries count as unknown."""
    return [
        f"{profile.name}: no operator of torch is called {name!r} ([{key}] {where}).{did_you_mean(name, _operators())}"
        for key, where, name in _named(profile)
        if not _matches(name)
    ]


def _named(profile: Profile) -> Iterator[tuple[str, str, str]]:
    """Yield every operator name in a profile, as (constraint, setting, name)."""
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
    """Return the names of all operators, in the spelling of graphs: ATen operators, functions and methods of torch."""
    import operator

    import torch

    schemas = (schema.name.partition("::")[2] for schema in torch._C._jit_get_all_schemas())
    names = {*schemas, *dir(torch), *dir(torch.Tensor), *dir(torch.nn.functional), *dir(operator)}
    return frozenset(known for name in names for known in (name, name.strip("_")))
