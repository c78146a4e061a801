"""The page of all attacks, docs/explanation/attacks.md, made by playing each of them.

    python tests/hostile/attack_table.py          writes the page; it takes a few minutes

The page says for each attack what it achieves where its guard is removed, and what Driftline says with the guard.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from driftline.core.errors import DriftlineError
from driftline.core.quoting import cell

if TYPE_CHECKING:
    from hostile.attack import Attack

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "attacks.md"
FAMILIES = {
    "Models that bring code": "pickles",
    "Models whose graph is code": "graphs",
    "Files that claim to be large": "bombs",
    "Links, pipes and endless files in a store": "files",
    "Rows and schemas of a store": "rows",
    "Repositories": "settings",
    "Files that a worker hands over, without Landlock": "handover",
    "What a worker writes to the process that started it": "answers",
    "Answers in the place of the worker's": "forgery",
    "Files without an end": "holes",
    "Other jobs and locks": "neighbours",
    "Time": "time",
    "Scripts for bug reports": "scripts",
}
WORKERS = "Programs in a worker"
HEAD = """\
# Every attack that the tests play

Each attack is played twice: in a build whose guard against it is removed, and in Driftline as it is. The table is
written by `tests/hostile/attack_table.py` from the data of `tests/hostile`. Who may be hostile is told by the
[threat model](threat-model.md).
"""


@dataclass(frozen=True)
class Row:
    """An attack as the table shows it."""

    name: str
    weak: str  # what the attack achieved without its guard
    now: str


def _module(name: str) -> Any:
    """A file of this folder, also where no pytest has set the paths."""
    for place in (str(ROOT / "tests" / "hostile"), str(ROOT / "tests")):
        if place not in sys.path:
            sys.path.insert(0, place)
    return importlib.import_module(name)


def attacks_of(family: str) -> list[Attack]:
    """The attacks of a file, in its order."""
    found: list[Attack] = _module(f"hostile.test_hostile_{family}").ATTACKS
    return found


def worker_attacks() -> list[str]:
    """The names of the attacks of a program in a worker."""
    return list(_module("worker_attacks").ATTACKS)


def title(name: str) -> str:
    return re.sub(r"[-_]", " ", name)


def names() -> set[str]:
    """The titles of all attacks."""
    return {title(one.name) for family in FAMILIES.values() for one in attacks_of(family)} | {
        title(name) for name in worker_attacks()
    }


@contextlib.contextmanager
def _refusals() -> Iterator[list[str]]:
    """The sentences of all `DriftlineError`s that are raised inside the block, but for those that a store asks itself
    when it looks whether an object is there already."""
    said: list[str] = []
    begin = DriftlineError.__init__

    def noting(self: DriftlineError, *about: object) -> None:
        sentence = " ".join(map(str, about))
        if "has lost the object" not in sentence:
            said.append(sentence)
        begin(self, *about)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DriftlineError, "__init__", noting)
        yield said


@contextlib.contextmanager
def _user(folder: Path) -> Iterator[None]:
    """A user without settings of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.setattr("driftline.core.secrets._taken", {})
        for name in ("OPENAI_BASE_URL", "DRIFTLINE_LLM_MODEL", "DRIFTLINE_STORE"):
            patch.delenv(name, raising=False)
        yield


def play(attack: Attack) -> Row:
    """Play an attack without its guard and with it."""
    with tempfile.TemporaryDirectory() as folder:
        weak, guarded = Path(folder) / "weak", Path(folder) / "guarded"
        weak.mkdir()
        guarded.mkdir()
        with _user(Path(folder)):
            with pytest.MonkeyPatch.context() as patch:
                attack.weaken(patch)
                achieved = attack.run(weak)
            with _refusals() as said:
                left = attack.run(guarded)
        if not achieved or left:
            raise SystemExit(f"{attack.name}: {achieved!r} without the guard, {left!r} with it")
        now = f"refused: {said[-1]}" if said else "has no effect"
        return Row(title(attack.name), _short(achieved, folder), _short(now, folder))


def _short(text: str, folder: str) -> str:
    """One line of at most so many characters, without the folder of the test."""
    line = re.sub(rf"{re.escape(folder)}\S*/", ".../", " ".join(text.split()))
    line = re.sub(r"/\S*/scratch/run-\S*?/", ".../", line).replace(str(Path.home()), "~")
    return line if len(line) <= 160 else f"{line[:157]}..."


def page() -> str:
    """The page as Markdown."""
    sections = [HEAD]
    for heading, family in FAMILIES.items():
        sections.append(_section(heading, [play(one) for one in attacks_of(family)]))
    found = _workers()
    rows = [
        Row(title(name), "has its effect" if found["off"][name] else "depends on the machine", "has no effect")
        for name in worker_attacks()
        if not found["on"][name]
    ]
    sections.append(_section(WORKERS, rows))
    return "\n".join(sections)


def _workers() -> dict[str, dict[str, bool]]:
    played: Callable[[Path, str], dict[str, bool]] = _module("test_worker_rights")._effects
    with tempfile.TemporaryDirectory() as folder:
        return {switch: played(Path(folder) / switch, switch) for switch in ("on", "off")}


def _section(heading: str, rows: list[Row]) -> str:
    lines = [f"| {cell(row.name)} | {cell(row.weak)} | {cell(row.now)} |" for row in rows]
    head = ["| attack | without its guard | with it |", "|---|---|---|"]
    return "\n".join([f"## {heading}", "", *head, *lines, ""])


def main() -> None:
    warnings.simplefilter("ignore")
    with contextlib.redirect_stderr(io.StringIO()):
        text = page()
    PAGE.write_text(text)
    print(f"{len(names())} attacks")


if __name__ == "__main__":
    main()
