"""Finds what a graph in a torch.export archive would make torch execute, beyond operators that torch knows.

Torch writes names and guards of the graph into the source of functions, lets sympy evaluate sizes, looks up operators
in its own modules by name, and imports the modules that containers name. The graph is JSON. Each kind of text in it is
compared with the syntax that torch's exporter writes (`archive_texts.py`); text of an unknown kind must not contain
characters that end a string.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from driftline.core.quoting import is_identifier
from driftline.programs.archive_texts import in_structure, is_guard, is_operator, is_plain, is_size, keywords_of

_NAMES = ("name", "as_name")
_FREE = ("metadata",)  # stack traces and the like, which torch keeps and never runs


def suspects_in_graph(data: bytes) -> Iterator[str]:
    """Yield a description of everything suspicious in a graph, given as JSON."""
    try:
        pending = [json.loads(data)]
    except (ValueError, RecursionError):  # another reader may get further
        yield "a graph that cannot be read"
        return
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from _unless(is_plain, str(key), "name")
                if key not in _FREE:
                    yield from _in_field(key, item, pending)
        elif isinstance(value, str):
            yield from _unless(is_plain, value, "text")


def _in_field(key: str, item: Any, pending: list[Any]) -> Iterator[str]:
    """Yield what is suspicious in one field of an object; nested values that remain to be checked go to `pending`."""
    if key in _TEXTS:
        what, allowed = _TEXTS[key]
        for text in item if isinstance(item, list) else [item]:
            if text is not None:
                yield from _unless(allowed, text, what)
    elif key in ("in_spec", "out_spec") and isinstance(item, str):
        yield from in_structure(item)
        if key == "in_spec":
            for word in keywords_of(item):
                yield from _unless(is_identifier, word, "name")
    elif key == "nodes" and isinstance(item, list):
        pending += [_without_words(node) for node in item]
    else:
        pending.append(item)


def _without_words(node: Any) -> Any:
    """Return a node without its text arguments, such as messages: torch writes those as Python literals."""
    if not isinstance(node, dict) or not isinstance(node.get("inputs"), list):
        return node
    inputs = [
        {**one, "arg": None} if isinstance(one, dict) and _is_words(one.get("arg")) else one for one in node["inputs"]
    ]
    return {**node, "inputs": inputs}


def _is_words(argument: Any) -> bool:
    return isinstance(argument, dict) and list(argument) in (["as_string"], ["as_strings"])


def _name(text: str) -> bool:
    return not text or is_identifier(text)


_TEXTS: Mapping[str, tuple[str, Callable[[str], bool]]] = {
    **dict.fromkeys(_NAMES, ("name", _name)),
    "forward_arg_names": ("name", is_identifier),
    "target": ("operator", is_operator),
    "as_operator": ("operator", is_operator),
    "expr_str": ("size", is_size),
    "guards_code": ("guard", is_guard),
}


def _unless(allowed: Callable[[str], bool], text: Any, what: str) -> Iterator[str]:
    """Yield a description of the text, unless it is of the kind that belongs there (`allowed`)."""
    if not isinstance(text, str) or not allowed(text):
        yield f"the {what} {text!r}"
