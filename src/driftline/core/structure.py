"""Converts nested values, as models accept and return them, to flat, named arrays and back.

Programs accept and return tuples, lists, dicts and similar objects: dataclasses, named tuples, the results and caches
of transformers. Everything else in Driftline uses a flat dict of named arrays. Paths are joined with dots:
`past.0.key`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from driftline.core.caches import is_cache, parts, with_parts
from driftline.core.errors import DriftlineError

Path = tuple[str, ...]


DEEPEST = 100  # levels of nested containers


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every leaf with its path, depth first, in the order of the containers. Raises DriftlineError for a
    container that is nested too deeply or holds itself."""
    _require_end(path)
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", None) or [str(i) for i in range(len(value))]
        items = list(zip(names, value, strict=True))
    elif _is_data(value):
        items = [(item.name, getattr(value, item.name)) for item in fields(value)]
    elif is_cache(value):
        items = list(parts(value).items())
    else:
        yield path, value
        return
    for name, item in items:
        yield from leaves(item, (*path, name))


def flatten(value: Any, root: str) -> dict[str, Any]:
    """Return the leaves by name, without `None`. A single leaf is called `root`; otherwise names are the dotted
    paths."""
    found = [(path, leaf) for path, leaf in leaves(value) if leaf is not None]
    return {".".join(path) if path else root: leaf for path, leaf in found}


def rebuild(value: Any, replace: Callable[[str, Any], Any], path: Path = ()) -> Any:
    """Return the same structure with each leaf replaced by `replace(name, leaf)`."""

    _require_end(path)

    def inner(name: str, item: Any) -> Any:
        return rebuild(item, replace, (*path, name))

    if isinstance(value, Mapping):
        return _mapping_like(value, {key: inner(str(key), item) for key, item in value.items()})
    if isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", None)
        items = [inner(names[i] if names else str(i), item) for i, item in enumerate(value)]
        return type(value)(*items) if names else type(value)(items)
    if _is_data(value):
        other = copy.copy(value)
        for item in fields(value):
            object.__setattr__(other, item.name, inner(item.name, getattr(value, item.name)))
        return other
    if is_cache(value):
        return with_parts(value, {name: inner(name, item) for name, item in parts(value).items()})
    return replace(".".join(path), value)


def _require_end(path: Path) -> None:
    if len(path) > DEEPEST:
        raise DriftlineError(
            f"A container at {'.'.join(path[:3])}... is nested more than {DEEPEST} levels deep, or holds itself."
            " Give and return tensors in plain tuples, lists and dicts."
        )


def _mapping_like(value: Mapping[Any, Any], made: dict[Any, Any]) -> Any:
    """Return a mapping of the same type if one can be filled, else a dict: models also access their arguments by
    attribute."""
    if type(value) is dict:
        return made
    try:
        other = copy.copy(value)
        for key, item in made.items():
            other[key] = item  # type: ignore[index]
        return other
    except Exception:  # a read-only mapping
        return made


def _is_data(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)
