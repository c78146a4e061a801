"""What a project remembers: `driftline.toml`, or `[tool.driftline]` in pyproject.toml, in this folder or above it.

    targets = ["onnxruntime", "openvino"]         # default of --targets
    accept = {onnxruntime = ["half-accumulation"]}
    fail_on = ["fail", "rejected"]
    store = "build/driftline"                     # from the folder of the file
    timeout = 600
    causes = ["team/causes"]                      # default of --causes, from the folder of the file
    [llm]                                         # the language model of --generators llm: see llm/settings.py

The command line wins over the file, and every run says which file it took settings from.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.llm.settings import check_table

_OWN, _SHARED = "driftline.toml", "pyproject.toml"
_SAID = "driftline.settings.said"


@dataclass(frozen=True)
class Settings:
    """What the file says; everything is left to the defaults where it says nothing."""

    file: Path | None = None
    accept: tuple[str, ...] = ()  # as for --accept
    targets: str | None = None
    fail_on: str | None = None
    store: Path | None = None
    timeout: float | None = None
    causes: tuple[Path, ...] = ()
    llm: Mapping[str, Any] | None = None
    given: frozenset[str] = field(default=frozenset())

    def said_by(self, key: str) -> str:
        return f"{self.file}: {key}:"


def find_settings(start: Path | None = None) -> Settings:
    """The settings of the nearest file upwards; without one, none."""
    folder = (start or Path.cwd()).resolve()
    for place in (folder, *folder.parents):
        own, shared = place / _OWN, place / _SHARED
        if own.is_file():
            return _read(own, _parsed(own))
        if shared.is_file() and (table := _shared_table(shared)) is not None:
            return _read(shared, table)
    return Settings()


def settings_of_run(*keys: str) -> Settings:
    """The settings for the command that runs; the first time one of these keys is used, the file is named on stderr."""
    settings = find_settings()
    root = click.get_current_context().find_root()
    if settings.given.intersection(keys) and not root.meta.get(_SAID):
        root.meta[_SAID] = True
        click.echo(f"driftline: settings from {settings.file}", err=True)
    return settings


@contextmanager
def naming_the_file(said_by: str) -> Iterator[None]:
    """What is wrong with a setting is said together with its file; empty: it does not come from a file."""
    try:
        yield
    except DriftlineError as error:
        if not said_by:
            raise
        raise type(error)(f"{said_by} {error}") from error


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise DriftlineError(f"{path} is not valid TOML: {error}. Correct it there, or remove the file.") from error


def _shared_table(path: Path) -> Mapping[str, Any] | None:
    """Our table in somebody's pyproject.toml. A broken file is our business only if it mentions us."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if "driftline" not in text:
        return None
    try:
        tool = tomllib.loads(text).get("tool", {})
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        if "[tool.driftline" in text:
            raise DriftlineError(f"{path} is not valid TOML: {error}. Correct it there.") from error
        return None
    found = tool.get("driftline") if isinstance(tool, dict) else None
    if found is not None and not isinstance(found, dict):
        raise DriftlineError(f"{path}: tool.driftline must be a table.")
    return found


def _read(path: Path, table: Mapping[str, Any]) -> Settings:
    readers: dict[str, Callable[[Any], Any]] = {
        "accept": lambda value: _accept(path, value),
        "targets": lambda value: ",".join(_texts(path, "targets", value)),
        "fail_on": lambda value: ",".join(_texts(path, "fail_on", value)),
        "store": lambda value: _store(path, value),
        "timeout": lambda value: _seconds(path, value),
        "causes": lambda value: tuple(path.parent / Path(text).expanduser() for text in _texts(path, "causes", value)),
        "llm": lambda value: check_table(str(path), value),
    }
    for key in table:
        if key not in readers:
            hint = did_you_mean(key, readers)
            raise DriftlineError(f"{path}: there is no setting {key!r}.{hint} Known: {', '.join(readers)}.")
    return Settings(path, given=frozenset(table), **{key: readers[key](value) for key, value in table.items()})


def _accept(path: Path, value: Any) -> tuple[str, ...]:
    if not isinstance(value, dict):
        return tuple(_texts(path, "accept", value))
    return tuple(f"{target}={policy}" for target, names in value.items() for policy in _texts(path, "accept", names))


def _texts(path: Path, key: str, value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        example = 'accept = {onnxruntime = ["half-accumulation"]}' if key == "accept" else f'{key} = ["...", "..."]'
        raise DriftlineError(f"{path}: {key} must be a list of names, as in {example}.")
    return texts


def _store(path: Path, value: Any) -> Path:
    if not isinstance(value, str) or not value or "\0" in value:
        raise DriftlineError(f'{path}: store must be a folder, as in store = ".driftline".')
    try:
        return path.parent / Path(value).expanduser()
    except RuntimeError as error:  # ~somebody whom nobody knows
        raise DriftlineError(f"{path}: store = {value!r}: {error}. Write the folder in full.") from error


def _seconds(path: Path, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= 1e9:
        raise DriftlineError(f"{path}: timeout must be a number of seconds, at least 0.1.")
    return float(value)
