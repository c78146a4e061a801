"""Nested values and flat, named arrays: the bridge between what models take and return, and what travels.

Programs take and return tuples, lists, dicts and objects like them; everything else in Driftline handles a flat dict
of named arrays. Paths are joined with dots: `past.0.key`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

Path = tuple[str, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf with its path, depth first, in the order of the containers."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, (*path, str(key)))
    elif isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", None) or [str(i) for i in range(len(value))]
        for name, item in zip(names, value, strict=True):
            yield from leaves(item, (*path, name))
    elif is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            yield from leaves(getattr(value, item.name), (*path, item.name))
    else:
        yield path, value


def flatten(value: Any, root: str) -> dict[str, Any]:
    """Leaves by name, `None` left out. A single leaf is called `root`; otherwise names are the dotted paths."""
    found = [(path, leaf) for path, leaf in leaves(value) if leaf is not None]
    return {".".join(path) if path else root: leaf for path, leaf in found}


def rebuild(value: Any, replace: Callable[[str, Any], Any], path: Path = ()) -> Any:
    """The same structure with each leaf replaced by `replace(name, leaf)`."""
    if isinstance(value, Mapping):
        return {key: rebuild(item, replace, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", None)
        items = [rebuild(item, replace, (*path, names[i] if names else str(i))) for i, item in enumerate(value)]
        return type(value)(*items) if names else type(value)(items)
    return replace(".".join(path), value)
