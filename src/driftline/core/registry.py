"""Registries of named objects that are loaded on first use.

A registry maps a name to an import string such as `driftline.backends.iree:Iree`. Nothing is imported until that name
is asked for, so a missing or broken extension does not affect the others. Built-ins, entry points and `--plugin` files
all register here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar, cast

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean, first_line

T = TypeVar("T")


def import_string(path: str) -> Any:
    """Import `package.module:attribute` and return the attribute."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


class Registry(Generic[T]):
    """Lazily loaded entries of one kind ("backend", "generator", ...), by name."""

    def __init__(self, kind: str, builtin: dict[str, str], group: str) -> None:
        self._kind = kind
        self._entries: dict[str, str | Callable[[], T]] = dict(builtin)
        self._loaded: dict[str, T] = {}
        self._group = group
        self._scanned = False

    def register(self, name: str, factory: Callable[[], T]) -> None:
        """Add or replace an entry; `factory` is called once, on first use."""
        self._entries[name] = factory
        self._loaded.pop(name, None)

    def names(self) -> list[str]:
        self._scan_entry_points()
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def get(self, name: str) -> T:
        """Return an entry, loaded on first use. Raises DriftlineError for an unknown name."""
        if name not in self._loaded:
            if name not in self.names():
                hint = did_you_mean(name, self.names())
                known = ", ".join(sorted(self._entries))
                raise DriftlineError(f"Unknown {self._kind} {name!r}.{hint} Known: {known}.")
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> T:
        entry = self._entries[name]
        try:
            factory = import_string(entry) if isinstance(entry, str) else entry
            return cast(T, factory())
        except Exception as error:
            raise DriftlineError(
                f"The {self._kind} {name!r} could not be loaded: {type(error).__name__}: {first_line(str(error))}."
                " Repair or uninstall the package that provides it."
            ) from error

    def _scan_entry_points(self) -> None:
        if self._scanned:
            return
        self._scanned = True
        for point in entry_points(group=self._group):
            self._entries.setdefault(point.name, point.value)
