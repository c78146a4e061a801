"""Stores that are valid SQLite and hold rows that a stranger or a disk has changed, at random with fixed seeds.

`benchmarks/fuzz.py --only rows` does the same with thousands.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "fuzz"))

from rows import STEPS, damage, fill

from driftline.report.formats import FORMATS, render
from driftline.report.gather import gather
from driftline.store.merge import merge_stores
from typed import typed

STORES = 25
CHANGES = {
    "sighting-of-operators": ("findings", "verdict", "$.sighting.operators", [[1]]),
    "sighting-answers": ("findings", "verdict", "$.sighting.answers", [{"passes": "x"}]),
    "sighting-answer-is-a-number": ("findings", "verdict", "$.sighting.answers", 3),
    "operator-is-a-number": ("cases", "body", "$.program.operators", [2.5]),
    "input-without-a-shape": ("cases", "body", "$.program.inputs", [{"name": "x"}]),
    "origin-is-a-list": ("cases", "body", "$.samples[0].origin", [None]),
    "versions-are-a-list": ("hunts", "environment", "$.versions", ["x"]),
    "version-of-no-target": ("hunts", "environment", "$.versions", {"../a b": "1"}),
    "version-is-an-object": ("hunts", "environment", "$.versions", {"onnxruntime": {"a": 1}}),
    "request-is-a-list": ("suspects", "body", "$.request", [1]),
    "targets-are-a-number": ("hunts", "plan", "$.targets", 3),
    "model-is-a-list": ("hunts", "plan", "$.llm", [1]),
}
COLUMNS = {
    "seconds-without-end": ("hunts", "seconds", 1e308),
    "started-is-bytes": ("hunts", "started", b"\xff\x00"),
    "lane-is-bytes": ("turns", "lane", b"\xff\x00"),
    "number-is-text": ("turns", "number", "[/x]"),
    "target-is-bytes": ("findings", "target", b"\xff\x00"),
    "runs-are-text": ("checks", "runs", "[/x]"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, str]]:
    place = tmp_path_factory.mktemp("whole") / "s"
    return place, fill(place)


def views_of(place: Path) -> str:
    """What the views say of a store. None may raise, and none may end with another exit code than those of bugs."""
    said = []
    for words in (("bugs", "list"), ("bugs", "list", "--json"), ("coverage",)):
        done = typed(*words, "--store", str(place))
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, (words, done.stderr)
        said += [done.stdout, done.stderr]
    report = gather(place)
    said += [render(report, form) for form in FORMATS]
    merge_stores([place], place.parent / "into")
    return "\n".join(said)


def gaps_of(place: Path) -> list[str]:
    """The gaps that the report and the coverage tell, but for the explanations, which `fill` leaves incomplete."""
    told = json.loads(typed("coverage", "--json", "--store", str(place)).stdout)["gaps"]
    found = dict.fromkeys([*gather(place).gaps, *told])
    return [gap for gap in found if not any(gap.startswith(f"The {step} of") for step in ("reduce", *STEPS))]


def test_a_store_with_no_damage_has_all_rows(whole: tuple[Path, tuple[str, str]], tmp_path: Path) -> None:
    shutil.copytree(whole[0], tmp_path / "s")
    said = views_of(tmp_path / "s")
    assert all(name in said for name in whole[1])
    assert gaps_of(tmp_path / "s") == []


@pytest.mark.parametrize("name", [*CHANGES, *COLUMNS])
def test_a_damaged_row_is_one_line(whole: tuple[Path, tuple[str, str]], tmp_path: Path, name: str) -> None:
    place, (sound, damaged) = tmp_path / "s", sorted(whole[1])
    shutil.copytree(whole[0], place)
    with closing(sqlite3.connect(place / "store.db", isolation_level=None)) as database:
        if name in CHANGES:
            table, column, path, value = CHANGES[name]
            change, told = f"{column} = json_set({column}, ?, json(?))", (path, json.dumps(value))
        else:
            table, column, plain = COLUMNS[name]
            change, told = f"{column} = ?", (plain,)  # type: ignore[assignment]
        one = {"findings": "bug = ?", "cases": "id = (SELECT case_id FROM findings WHERE bug = ?)"}.get(
            table, "? != ''"
        )
        before = database.total_changes
        database.execute(f"UPDATE {table} SET {change} WHERE {one}", (*told, damaged))
        assert database.total_changes > before
    assert sound in views_of(place)
    gaps = gaps_of(place)
    assert len(gaps) == 1, gaps
    gap = gaps[0]
    assert any(words in gap for words in ("is damaged", "are damaged", "no target or number")) and "\n" not in gap


def test_stores_with_random_damage_are_shown(whole: tuple[Path, tuple[str, str]], tmp_path: Path) -> None:
    changed = 0
    for number in range(STORES):
        place = tmp_path / str(number) / "s"
        shutil.copytree(whole[0], place)
        changed += len(damage(place, random.Random(f"rows/{number}")))
        views_of(place)
    assert changed >= STORES
