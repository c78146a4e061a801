"""What a project remembers: `driftline.toml`, or `[tool.driftline]` in pyproject.toml, in this folder or above it.

    targets = ["onnxruntime", "openvino"]         # default of --targets
    accept = {onnxruntime = ["half-accumulation"]}
    fail_on = ["fail", "rejected"]
    store = "build/driftline"                     # a folder below that of the file
    timeout = 600
    causes = ["team/causes"]                      # default of --causes, folders below that of the file
    [llm]                                         # the language model of --generators llm: see llm/settings.py
    model = "qwen2.5-coder"

The command line wins over the file, and every run says which file it took settings from.

The file comes with a repository, which a stranger may have written. So it cannot say where a key is sent, which key, or
what an answer costs (`cli/user_settings.py` has the file that can), and it names no folder outside its own. A setting
that is ignored for such a reason is reported on stderr.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from driftline.cli.user_settings import user_llm_table
from driftline.core.case import LONGEST_TIMEOUT
from driftline.core.config import user_settings_file
from driftline.core.errors import DriftlineError
from driftline.core.quoting import one_line
from driftline.core.text import did_you_mean
from driftline.llm.settings import OF_THE_ACCOUNT, check_table

_OWN, _SHARED = "driftline.toml", "pyproject.toml"
MOST_BYTES = 1 << 20  # of a file with settings; a larger pyproject.toml is taken to have none
_SAID = "driftline.settings.said"
IGNORED_SETTINGS = "driftline.settings.ignored"  # where the sentences stand in the context of a command


@dataclass(frozen=True)
class Ignored:
    """A setting of a project file that is not followed, with a sentence that says why."""

    key: str
    sentence: str


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
    ignored: tuple[Ignored, ...] = ()

    def said_by(self, key: str) -> str:
        return f"{self.file}: {key}:"


def find_settings(start: Path | None = None) -> Settings:
    """The settings of the nearest file upwards; without one, none."""
    folder = (start or Path.cwd()).resolve()
    strangers: list[Ignored] = []
    for place in (folder, *folder.parents):
        own, shared = place / _OWN, place / _SHARED
        for path, parsed in ((own, _parsed), (shared, _shared_table)):
            if not path.is_file():
                continue
            if _of_another_user(path):
                strangers.append(Ignored("", f"{path} belongs to another user and is ignored."))
            elif (table := parsed(path)) is not None:
                found = _read(path, table)
                return replace(found, ignored=(*strangers, *found.ignored))
    return Settings(ignored=tuple(strangers))


def settings_of_run(*keys: str) -> Settings:
    """The settings for the command that runs. The first time that one of these keys is used, the file is named on
    stderr; so is each of these keys that is ignored, with the reason."""
    settings = find_settings()
    said = click.get_current_context().find_root().meta.setdefault(_SAID, set())
    ignored = [one for one in settings.ignored if one.key in ("", *keys)]
    lines = [one.sentence for one in ignored]
    if any(getattr(settings, key) for key in settings.given.intersection(keys)):
        lines.insert(0, f"settings from {settings.file}")
    context = click.get_current_context().find_root()
    told: list[str] = context.meta.setdefault(IGNORED_SETTINGS, [])
    told += [one.sentence for one in ignored if one.sentence not in told]  # for --json
    for line in lines:
        if line not in said:
            said.add(line)
            click.echo(f"driftline: {line}", err=True)
    return settings


def _of_another_user(path: Path) -> bool:
    """True if another user, who may share a folder above this one, owns the file."""
    return os.geteuid() != 0 and path.stat().st_uid not in (os.geteuid(), 0)


@contextmanager
def naming_the_file(said_by: str) -> Iterator[None]:
    """What is wrong with a setting is said together with its file; empty: it does not come from a file."""
    try:
        yield
    except DriftlineError as error:
        if not said_by:
            raise
        raise type(error)(f"{said_by} {error}") from error


def _text(path: Path) -> str:
    """Return the text of a settings file. Raises `DriftlineError` for a file larger than any settings."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise DriftlineError(f"{path} has more than {MOST_BYTES >> 10} KiB, and is not read. Remove it, or shorten it.")
    return data.decode()


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise DriftlineError(f"{path} is not valid TOML: {error}. Correct it there, or remove the file.") from error


def _shared_table(path: Path) -> Mapping[str, Any] | None:
    """Our table in somebody's pyproject.toml. A broken file is our business only if it mentions us."""
    try:
        text = _text(path)
    except (OSError, UnicodeDecodeError, DriftlineError):
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
    guard = _Guard(path)
    readers: dict[str, Callable[[Any], Any]] = {
        "accept": lambda value: _accept(path, value),
        "targets": lambda value: ",".join(_texts(path, "targets", value)),
        "fail_on": lambda value: ",".join(_texts(path, "fail_on", value)),
        "store": lambda value: next(iter(guard.below("store", [_folder_text(path, value)])), None),
        "timeout": lambda value: _seconds(path, value),
        "causes": lambda value: guard.below("causes", _texts(path, "causes", value)),
        "llm": lambda value: guard.of_no_account(check_table(str(path), value)),
    }
    for key in table:
        if key not in readers:
            hint = did_you_mean(key, readers)
            raise DriftlineError(f"{path}: there is no setting {key!r}.{hint} Known: {', '.join(readers)}.")
    values = {key: readers[key](value) for key, value in table.items()}
    return Settings(path, given=frozenset(table), ignored=tuple(guard.ignored), **values)


class _Guard:
    """Separates what a project file may say from what is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ignored: list[Ignored] = []

    def below(self, key: str, texts: list[str]) -> tuple[Path, ...]:
        """The folders that lie below that of the file."""
        folders = {text: _below(self._path, key, text) for text in texts}
        for text, folder in folders.items():
            if folder is None:
                sentence = (
                    f"{self._path}: {key} = {one_line(text, 80)!r} leads out of {self._path.parent} and is ignored. If"
                    f" you want it, say --{key} on the command line."
                )
                self.ignored.append(Ignored(key, sentence))
        return tuple(folder for folder in folders.values() if folder is not None)

    def of_no_account(self, told: dict[str, Any]) -> dict[str, Any]:
        """The settings of a language model that do not concern the user's account."""
        mine = user_llm_table()
        refused = [key for key in OF_THE_ACCOUNT if key in told and told[key] != mine.get(key)]
        if refused:
            sentence = (
                f"{self._path}: {', '.join(f'llm.{key}' for key in refused)} ignored: a project does not decide where"
                f" your key is sent. If you want that, write [llm] with {' and '.join(refused)} into"
                f" {user_settings_file()}."
            )
            self.ignored.append(Ignored("llm", sentence))
        return {key: value for key, value in told.items() if key not in OF_THE_ACCOUNT}


def _below(path: Path, key: str, text: str) -> Path | None:
    """The folder that a project file names, or None if it lies, links resolved, outside the folder of the file."""
    try:
        place = path.parent / Path(text).expanduser()
        inside = place.resolve().is_relative_to(path.parent.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # ~somebody whom nobody knows; links in a circle; a NUL
        raise DriftlineError(f"{path}: {key} = {text!r}: {error}. Write the folder in full.") from error
    return place if inside else None


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


def _folder_text(path: Path, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise DriftlineError(f'{path}: store must be a folder, as in store = ".driftline".')
    return value


def _seconds(path: Path, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= LONGEST_TIMEOUT:
        raise DriftlineError(f"{path}: timeout must be a number of seconds, from 0.1 to {LONGEST_TIMEOUT:g}.")
    return float(value)
