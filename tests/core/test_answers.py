"""Answers are remembered by everything they depend on; what cannot be read is made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.core.answers import remembered


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path))
    return tmp_path


def test_an_answer_is_made_once_for_each_key() -> None:
    first = remembered("rules", {"torch": "2.13"}, lambda: [1, 2])
    assert not first.remembered
    again = remembered("rules", {"torch": "2.13"}, lambda: pytest.fail("made twice"))
    assert again.remembered and again.value == [1, 2] and again.made == first.made
    assert remembered("rules", {"torch": "2.14"}, lambda: [3]).value == [3]
    assert remembered("rules", {"torch": "2.13"}, lambda: [4], fresh=True).value == [4]
    assert remembered("rules", {"torch": "2.13"}, lambda: pytest.fail("made twice")).value == [4]


@pytest.mark.parametrize("damage", [b"", b"{", b'{"made": 1, "digest": "x", "value": [9]}', b"\xff\xfe", b"[]"])
def test_a_damaged_answer_is_made_anew(cache: Path, damage: bytes) -> None:
    remembered("rules", "key", lambda: [1])
    (file,) = (cache / "answers").glob("rules-*.json")
    file.write_bytes(damage)
    assert remembered("rules", "key", lambda: [2]).value == [2]
    assert remembered("rules", "key", lambda: pytest.fail("made twice")).value == [2]


def test_a_cache_that_cannot_be_written_costs_only_time(cache: Path) -> None:
    (cache / "answers").write_text("a file where the folder should be")
    assert remembered("rules", "key", lambda: [1]).value == [1]
