"""Benchmarks that are killed go on from the lines that are whole."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from _lines import append_line, read_lines

import perf


@pytest.mark.parametrize("torn", ["", "{", '{"question": "b", "ans', '"b"', "[1]"])
def test_what_a_kill_left_of_a_line_is_no_line(torn: str, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    assert read_lines(path) == []
    append_line(path, {"a": "\u2028"})
    with path.open("a") as file:
        file.write(torn)
    append_line(path, {"b": 2})
    assert read_lines(path) == [{"a": "\u2028"}, {"b": 2}]


def test_a_question_whose_answer_was_torn_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "perf.jsonl"
    results = perf.Results(path, math.inf)
    results.ask("same: program 1", lambda: "slow (a)")
    results.ask("same: program 2", lambda: "within noise (b)")
    path.write_text(path.read_text()[:-5])
    again = perf.Results(path, math.inf)
    assert again.counts("same") == {"slow": 1}
    again.ask("same: program 1", lambda: pytest.fail("it is known"))
    again.ask("same: program 2", lambda: "faster (b)")
    assert perf.Results(path, math.inf).counts("same") == {"slow": 1, "faster": 1}
