"""Options of a command as one value: commands with many options take a frozen dataclass in place of parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any


def filled(kind: type[Any], name: str = "asked") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a command receive the options that are fields of a dataclass as one value of this dataclass.

    `name`: the parameter that takes the value. Stands below the options of the command. Options that are no fields
    remain parameters; fields without an option keep their defaults.
    """
    names = {field.name for field in fields(kind)}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def run(*context: Any, **given: Any) -> Any:
            own = {key: given.pop(key) for key in names & given.keys()}
            return command(*context, **given, **{name: kind(**own)})

        return run

    return decorate
