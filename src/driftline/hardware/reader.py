"""Reads a profile from TOML, strictly: unknown keys and values are refused, with the line and the valid keys."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.hardware.arithmetic import READERS, DeviceArithmetic
from driftline.hardware.constraint import CONSTRAINTS, Constraint, settings, switch
from driftline.hardware.profile import Profile
from driftline.hardware.toml_lines import line_of

COMPUTE = "compute"
_TOP = ("name", "description", "strict")


def read_profile(path: Path) -> Profile:
    """Read the profile in a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DriftlineError(f"The profile {path} cannot be read: {why}.") from error
    return parse_profile(text, str(path), path.stem)


def parse_profile(text: str, file: str, name: str) -> Profile:
    return _ProfileReader(text, file).profile(name)


class _ProfileReader:
    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file

    def profile(self, name: str) -> Profile:
        try:
            content = tomllib.loads(self._text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise DriftlineError(f"The profile {self._file} is not valid TOML: {error}.") from error
        valid = (*_TOP, COMPUTE, *CONSTRAINTS.names())
        constraints: list[Constraint] = []
        top: dict[str, Any] = {}
        arithmetic = DeviceArithmetic()
        for key, value in content.items():
            if key not in valid:
                self._unknown("", key, 0, valid, "the profile")
            if key in _TOP:
                top[key] = self._top(key, value)
            elif key == COMPUTE:
                arithmetic = DeviceArithmetic(**self._compute(value))
            else:
                constraints += self._constraints(key, value)
        return Profile(
            str(top.get("name", name)), tuple(constraints), bool(top.get("strict", False)), arithmetic,
            str(top.get("description", "")),
        )  # fmt: skip

    def _top(self, key: str, value: Any) -> Any:
        try:
            if key == "strict":
                return switch(value)
            if not isinstance(value, str):
                raise ValueError(f"must be text, not {value!r}")
        except ValueError as error:
            self._wrong("", key, 0, str(error))
        return value

    def _compute(self, value: Any) -> dict[str, Any]:
        table = self._table(COMPUTE, value)
        for key in table:
            if key not in READERS:
                self._unknown(COMPUTE, key, 0, tuple(READERS), f"[{COMPUTE}]")
        return {key: self._read(COMPUTE, key, 0, READERS[key], one) for key, one in table.items()}

    def _constraints(self, name: str, value: Any) -> list[Constraint]:
        """Return the constraints of one table, or of several tables written `[[name]]`."""
        several = isinstance(value, list) and all(isinstance(one, dict) for one in value) and value
        tables = value if several else [self._table(name, value)]
        cls = CONSTRAINTS.get(name)
        known = {one.name: one for one in settings(cls)}
        found = []
        for index, table in enumerate(tables):
            for key in table:
                if key not in known:
                    self._unknown(name, key, index, tuple(known), f"[{name}]")
            given = {k: self._read(name, k, index, known[k].metadata["read"], one) for k, one in table.items()}
            try:
                found.append(cls(**given))
            except ValueError as error:  # such as a size that rounds to no byte
                raise DriftlineError(f"The profile {self._file}, [{name}]: {error}.") from error
        return found

    def _table(self, name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            keys = READERS if name == COMPUTE else [one.name for one in settings(CONSTRAINTS.get(name))]
            self._wrong("", name, 0, f"must be a table, written [{name}] with the keys {', '.join(keys)}")
        return value

    def _read(self, table: str, key: str, index: int, read: Any, value: Any) -> Any:
        try:
            return read(value)
        except ValueError as error:
            self._wrong(table, key, index, str(error))

    def _unknown(self, table: str, key: str, index: int, valid: Collection[str], where: str) -> NoReturn:
        line = line_of(self._text, table, key, index) if table else self._line_at_top(key)
        raise DriftlineError(
            f"{self._file}:{line}: {where} has no key {key!r}.{did_you_mean(key, valid)}"
            f" Valid keys: {', '.join(valid)}."
        )

    def _wrong(self, table: str, key: str, index: int, why: str) -> NoReturn:
        line = line_of(self._text, table, key, index) if table else self._line_at_top(key)
        raise DriftlineError(f"{self._file}:{line}: {f'[{table}] ' if table else ''}{key} {why}.")

    def _line_at_top(self, key: str) -> int:
        """Return the line of a top-level key, or of the table with this name."""
        line = line_of(self._text, "", key)
        return line if line > 1 else line_of(self._text, key)
