"""The causes of a run: those that come with Driftline, and those in folders of the user.

    FOLDER/<compiler>/<name>.toml      is the cause <compiler>/<name>

A cause of the user replaces a built-in one with the same id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from driftline.causes.cause import Cause, Question
from driftline.causes.match import explains, may_explain
from driftline.causes.read import read_cause
from driftline.causes.sighting import Sighting
from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean

BUILTIN = Path(__file__).with_name("library")


@dataclass(frozen=True)
class Library:
    """A set of causes, ordered by id."""

    causes: tuple[Cause, ...] = ()

    def __iter__(self) -> Iterator[Cause]:
        return iter(self.causes)

    def __len__(self) -> int:
        return len(self.causes)

    def get(self, name: str) -> Cause:
        """Return a cause by its id; the name alone is enough if only one compiler has it."""
        found = [one for one in self.causes if one.id == name]
        found = found or [one for one in self.causes if one.id.partition("/")[2] == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise DriftlineError(f"{name!r} may be any of {', '.join(one.id for one in found)}; write one of these.")
        ids = [one.id for one in self.causes]
        hint = did_you_mean(name, ids) or did_you_mean(name, [one.partition("/")[2] for one in ids])
        raise DriftlineError(f"There is no cause {name!r}.{hint} (driftline causes list shows all.)")

    def explaining(self, seen: Sighting) -> tuple[Cause, ...]:
        """Return the causes that explain a failure."""
        return tuple(cause for cause in self._of(seen.backend) if explains(cause, seen))

    def questions(self, seen: Sighting) -> tuple[Question, ...]:
        """Return the tests to run on the case, for causes that could explain it depending on the result."""
        asked = (
            question
            for cause in self._of(seen.backend)
            if may_explain(cause, seen)
            for question in cause.questions
            if seen.passes(question) is None
        )
        return tuple(dict.fromkeys(asked))

    def _of(self, compiler: str) -> Iterator[Cause]:
        return (cause for cause in self.causes if cause.compiler == compiler)


@cache
def builtin() -> Library:
    """Return the causes that come with Driftline."""
    return Library(tuple(_read(BUILTIN)))


def load(folders: Iterable[Path] = ()) -> Library:
    """Return the built-in causes and those of the given folders. A later folder replaces causes with the same id."""
    found = {cause.id: cause for cause in builtin()}
    for folder in folders:
        mine = _read(folder)
        if not mine:
            raise DriftlineError(f"{folder} has no causes; write them as {folder}/<compiler>/<name>.toml.")
        found |= {cause.id: cause for cause in mine}
    return Library(tuple(found[key] for key in sorted(found)))


def _read(folder: Path) -> Sequence[Cause]:
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise DriftlineError(f"{folder} {what}; --causes takes a folder of <compiler>/<name>.toml files.")
    stray = next(iter(sorted(folder.glob("*.toml"))), None)
    if stray is not None:
        raise DriftlineError(f"{stray}: put it into a folder with the name of its compiler.")
    return [read_cause(path) for path in sorted(folder.glob("*/*.toml"))]
