"""Objects that hold tensors between the calls of a model: key-value caches as in Hugging Face's transformers.

They are recognised by their class names and attributes, since this package imports no framework. `parts` returns their
content by name; `with_parts` makes a copy with other content. The original is never changed, although models write into
the cache that they are given.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

_SHORT = {
    "keys": "key",
    "values": "value",
    "self_attention_cache": "self_attention",
    "cross_attention_cache": "cross_attention",
}


def is_cache(value: Any) -> bool:
    """True if a value is a cache, or one layer of a cache."""
    names = {cls.__name__ for cls in type(value).__mro__}
    return hasattr(value, "__dict__") and bool(names & {"Cache", "CacheLayerMixin"} or _is_old(value))


def _is_old(value: Any) -> bool:
    """True for a cache of the old form, without layers: two lists of tensors."""
    return all(isinstance(getattr(value, name, None), list) for name in ("key_cache", "value_cache"))


def parts(cache: Any) -> dict[str, Any]:
    """Return the content of a cache by name: its layers by number, the tensors of a layer as `key` and `value`."""
    if _is_old(cache):
        pairs = zip(cache.key_cache, cache.value_cache, strict=True)
        return {str(at): {"key": key, "value": value} for at, (key, value) in enumerate(pairs)}
    if isinstance(getattr(cache, "layers", None), list):
        return {str(at): layer for at, layer in enumerate(cache.layers)}
    return {_SHORT.get(name, name): value for name, value in vars(cache).items() if _holds_tensors(value)}


def with_parts(cache: Any, made: Mapping[str, Any]) -> Any:
    """Return a copy of a cache with these parts instead of its own."""
    other = copy.copy(cache)
    for name, value in vars(cache).items():
        if isinstance(value, (list, dict)):
            setattr(other, name, copy.copy(value))
    if _is_old(cache):
        other.key_cache = [layer["key"] for layer in made.values()]
        other.value_cache = [layer["value"] for layer in made.values()]
    elif isinstance(getattr(cache, "layers", None), list):
        other.layers = list(made.values())
    else:
        names = {_SHORT.get(name, name): name for name in vars(cache)}
        for name, value in made.items():
            setattr(other, names[name], value)
    return other


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_tensors(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_tensors(item) for item in value)
    return is_cache(value) or (hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "ndim"))
