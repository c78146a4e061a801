"""Simplify the attributes of a node: fewer of them, smaller numbers, other dtypes.

Attributes are nested JSON. ONNX attributes are written by name; those of a torch call are its arguments
(`fx_arguments.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# How attributes name dtypes: torch's by a word, ONNX's by a number under one of these keys.
_DTYPE_KEYS = ("to", "dtype")
_ONNX_CODES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
}  # fmt: skip


def number_replaced(value: Any, old: int, new: int) -> Any:
    """Return the attributes with one number replaced by another; dtype codes and references to inputs stay."""
    if isinstance(value, dict):
        return {k: v if k[0] == "$" or k in _DTYPE_KEYS else number_replaced(v, old, new) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [number_replaced(item, old, new) for item in value]
    return new if type(value) is int and value == old else value


def dtype_replaced(value: Any, old: str, new: str) -> Any:
    """Return the attributes with one dtype replaced by another, everywhere it is named."""
    if isinstance(value, list):
        return [dtype_replaced(item, old, new) for item in value]
    if not isinstance(value, dict):
        return value
    if value == {"w": old}:
        return {"w": new}
    code = {"i": _ONNX_CODES.get(old)}
    return {
        key: {"i": _ONNX_CODES[new]} if key in _DTYPE_KEYS and item == code else dtype_replaced(item, old, new)
        for key, item in value.items()
    }


def bare(value: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes without any of those that can be removed."""
    return {key: item for key, item in value.items() if not _may_go(key, item)}


def fewer(value: Any) -> Iterator[Any]:
    """Yield the attributes with one entry removed, or with one number made simpler. References to inputs stay."""
    match value:
        case dict():
            yield from _fewer_keys(value)
        case list():
            yield from _fewer_items(value)
        case bool():
            yield from ([False] if value else [])
        case int():
            yield from (n for n in (0, 1, 2, value // 2) if abs(n) < abs(value))
        case float():
            yield from (f for f in (0.0, 1.0, float(round(value)), round(value, 1)) if f != value)


def _fewer_keys(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$" in value:  # a reference to an input
        return
    for key, item in value.items():
        if key.startswith("$") or key in _DTYPE_KEYS:
            continue
        if _may_go(key, item):
            yield {other: v for other, v in value.items() if other != key}
        for plainer in fewer(item):
            yield {**value, key: plainer}


def _fewer_items(value: list[Any]) -> Iterator[list[Any]]:
    if value and not refers(value[-1]):
        yield value[:-1]
    for at, item in enumerate(value):
        for plainer in fewer(item):
            yield [*value[:at], plainer, *value[at + 1 :]]


def _may_go(key: str, item: Any) -> bool:
    """True if an attribute can be removed. Single letters only name the kind of a value; dtypes have their own pass."""
    return len(key) > 1 and not key.startswith("$") and key not in _DTYPE_KEYS and not refers(item)


def refers(value: Any) -> bool:
    """True if an attribute holds a reference to an input."""
    if isinstance(value, dict):
        return "$" in value or any(refers(item) for item in value.values())
    return isinstance(value, (list, tuple)) and any(refers(item) for item in value)
