"""Signatures for `help` and notebooks that list the fields of a settings class instead of `**settings`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

Called = TypeVar("Called", bound=Callable[..., Any])


def shows(settings: type[Any]) -> Callable[[Called], Called]:
    """Decorate a function that takes the fields of `settings` as keywords: its signature lists them with their
    defaults."""

    def decorated(function: Called) -> Called:
        plain = inspect.signature(function)
        named = [one for one in plain.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=_default(one), annotation=one.type)
            for one in fields(settings)
        ]
        function.__signature__ = plain.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        return function

    return decorated


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
