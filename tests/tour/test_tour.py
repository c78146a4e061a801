"""`driftline tour`: the whole of it on a real compiler, what is skipped, what cannot be shown, and the keys."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from driftline.checking.checker import Checker
from driftline.cli import run
from driftline.report.screen import Screen
from driftline.store import Store
from driftline.tour import cases, steps
from driftline.tour.guide import DONE, GO, IMPOSSIBLE, QUIT, SKIP, SKIPPED, StepRecord, guide
from driftline.tour.steps import STEPS, CannotShow, Shown, Tour, TourStep

NAMES = ["find", "judge", "shrink", "blame", "bisect", "export"]


@pytest.fixture
def tour(checker: Checker, tmp_path: Path) -> Any:
    with Store.create(tmp_path / "store") as store:
        yield Tour(checker, store, tmp_path, fast=True)


def test_from_a_program_to_an_issue(tour: Tour) -> None:
    records = {record.name: record for record in guide(tour, None)}
    assert list(records) == NAMES
    # No other release is installed in tests: bisecting says so, and the tour goes on.
    expected = {**dict.fromkeys(NAMES, DONE), "bisect": records["bisect"].state}
    assert {name: record.state for name, record in records.items()} == expected, records
    if records["bisect"].state == IMPOSSIBLE:
        assert "--fast downloads nothing" in records["bisect"].reason
    found = records["find"].facts
    assert found["case"] == "classifier" and found["verdicts"]["onnxruntime"] == "fail"
    assert found["verdicts"]["onnx-reference"] == "pass"
    assert records["judge"].facts["error"] > 1000 * records["judge"].facts["sigma"]
    assert records["shrink"].facts["before"] == 11 and records["shrink"].facts["after"] == 2
    assert any("Pad_Fusion" in cure for cure in records["blame"].facts["cures"])
    assert any("Pad_Fusion" in cause for cause in records["blame"].facts["causes"])
    issue = Path(records["export"].facts["file"]).read_text()
    assert records["export"].facts["valid"] and "MaxPool" in issue and "onnxruntime" in issue
    assert found["bug"] in records["shrink"].command and records["shrink"].command.startswith("driftline reduce ")


def test_another_case_is_shown_where_the_first_does_not_fail(tour: Tour, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = cases.TourCase(
        "sound",
        "sound.py",
        "import numpy as np\nfrom onnx import parser\n\n\ndef program():\n"
        "    text = '<ir_version: 8, opset_import: [\"\": 18]> g (float[2] x) => (float[2] y) { y = Abs(x) }'\n"
        "    return parser.parse_model(text), {'x': np.ones(2, np.float32)}\n",
        "onnxruntime",
        (),
        "",
    )
    monkeypatch.setattr(steps, "CASES", (sound, cases.CASES[1]))
    (record,) = guide(tour, None, skip=NAMES[1:])[:1]
    assert record.state == DONE and record.facts["case"] == "normalisation"
    monkeypatch.setattr(steps, "CASES", (sound,))
    (record,) = guide(tour, None)
    assert record.state == IMPOSSIBLE and "onnxruntime is right on sound.py here" in record.reason


@pytest.mark.slow
def test_the_case_of_inductor_fails_too(tour: Tour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "CASES", (cases.CASES[2],))
    found = guide(tour, None, skip=NAMES[1:])[0]
    assert found.state == DONE and found.facts["verdicts"] == {"inductor": "fail", "aot_eager": "pass"}


def told(name: str, lines: tuple[str, ...] = ("done",)) -> TourStep:
    return TourStep(
        name, f"Title of {name}", f"About {name}", lambda tour: f"driftline {name}", lambda tour: Shown(lines)
    )


def test_steps_are_skipped_by_name_and_by_key(tour: Tour) -> None:
    def no(tour: Tour) -> Shown:
        raise CannotShow("there is no network")

    offline = TourStep("c", "Title", "About", lambda tour: "", no)
    answers = {"a": GO, "b": SKIP, "c": GO, "d": GO, "e": QUIT}
    out = Screen(record=True, width=100, file=io.StringIO())
    records = guide(
        tour, out, skip=["d"], ask=lambda step: answers[step.name], steps=[*map(told, "ab"), offline, *map(told, "def")]
    )
    assert [(r.name, r.state) for r in records] == [
        ("a", DONE), ("b", SKIPPED), ("c", IMPOSSIBLE), ("d", SKIPPED),
    ]  # fmt: skip
    shown = out.export_text()
    assert "$ driftline a" in shown and "Not here: there is no network." in shown and "About f" not in shown


def test_steps_need_what_find_shows(tour: Tour) -> None:
    for step in STEPS[1:]:
        with pytest.raises(CannotShow, match="needs what the step find shows"):
            step.show(tour)


def test_a_step_as_json() -> None:
    record = StepRecord("find", DONE, command="driftline check x", lines=("a",), facts={"bug": "b"}, seconds=1.26)
    assert json.loads(json.dumps(record.to_json())) == {
        "name": "find", "state": "done", "reason": "", "command": "driftline check x", "lines": ["a"], "seconds": 1.3,
        "found": {"bug": "b"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--skip", "shrnk"], "Did you mean 'shrink'"),
        (["--steps", "all"], "there is no such step"),
        (["--skip", "find"], "leave it in"),
    ],
)
def test_mistakes(arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tour", *arguments, "--out", str(tmp_path / "t")]) == 2
    assert sentence in capsys.readouterr().err and not (tmp_path / "t").exists()


def _until(terminal: int, words: str, seconds: float = 120.0) -> str:
    seen, end = b"", time.monotonic() + seconds
    while words.encode() not in seen:
        assert time.monotonic() < end, seen.decode()
        if select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 4096)
    return seen.decode()


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", 130)])
def test_on_a_terminal_it_waits_for_a_key(tmp_path: Path, key: str, code: int) -> None:
    """q ends it, and so does Ctrl-C, politely."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "driftline", "tour", "--out", str(tmp_path / "t")]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env={**os.environ, "TERM": "dumb"}
    )
    os.close(theirs)
    try:
        seen = _until(ours, "q: end")
        assert "1 of 6" in seen
        end = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < end:
            os.write(ours, key.encode())  # again and again: what comes before it listens is lost, as on any terminal
            select.select([], [], [], 0.2)
        assert process.wait(10) == code
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        os.close(ours)
