"""`driftline schedules` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftline.cli import run
from driftline.schedules.functions import NAMES
from driftline.schedules.primitives import NOT_DRAWN, PRIMITIVES
from driftline.schedules.trace import Trace
from driftline.store import Store


def test_list_names_functions_primitives_and_duties_with_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedules", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["functions"]] == list(NAMES)
    assert told["primitives"] == list(PRIMITIVES) and not set(PRIMITIVES) & set(NOT_DRAWN)
    assert all(one["duty"] and one["source"].startswith("tvm.s_tir.Schedule.") for one in told["preconditions"])
    assert run(["schedules", "list"]) == 0
    assert "matmul_bias" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hunt", "--functions", "matmull"], "'matmul'"),
        (["hunt", "--functions", ","], "leave --functions out"),
        (["hunt", "--budget", "soon"], "write a time with its unit"),
        (["hunt", "--target", "llvmm"], "TVM cannot build for it here"),
        (["hunt", "--resume", "--functions", "matmul"], "leave out --functions"),
        (["hunt", "--resume"], "no unfinished schedule hunt"),
        (["replay", "nothing.json"], "no such file"),
    ],
)
def test_bad_words_get_one_sentence(
    words: list[str], said: str, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["schedules", *words, "--store", str(store_folder)]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


def test_a_trace_in_a_file_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(Trace("scale", {"n": 3, "m": 4}).dump())
    assert run(["schedules", "replay", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == "passes"
    path.write_text("[1, 2")
    assert run(["schedules", "replay", str(path)]) == 2
    assert "not a trace" in capsys.readouterr().err


def test_a_bug_that_is_no_schedule_is_refused(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store.create(store_folder).close()
    assert run(["schedules", "export", "onnxruntime-0", "--store", str(store_folder)]) == 2
    assert "onnxruntime-0" in capsys.readouterr().err
