"""A hunt on a terminal: a line for each compiler with programs, rate, bugs and time left, in any width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path

import pytest
from filled_store import add_bug

from driftline.causes import builtin
from driftline.cli import run
from driftline.core.verdict import Kind, Status
from driftline.report import annotated
from driftline.store import Store

# A hunt's events, as the engine sends them; what is shown is the real display on a real terminal.
HUNT = """
import sys, time
from driftline.core.terminal import be_quiet, drop_colours
from driftline.core.verdict import Fingerprint, Status
from driftline.events import BugSeen, HuntStarted, LaneStopped, TurnDone
from driftline.report.hunt_progress import HuntProgress
from driftline.store import Bug

if "quiet" in sys.argv:
    be_quiet()
bug = Bug("tvm-1", Fingerprint("tvm", "RUN", "wrong-value", "abs(float)"), Status.NEW, "abs(NaN) returns 0", "", "")
with HuntProgress(spent=7.0) as progress:
    if progress._live:
        progress._live.refresh()
    lanes = ("inductor:freezing=true", "onnxruntime", "tvm")
    budget, programs = (0.0, 4000) if "programs" in sys.argv else (600.0, 0)
    progress(HuntStarted(lanes, (), (), 0, budget, programs, 0, 0.0))
    progress(TurnDone("tvm", 0, {"pass": 30, "fail": 2, "rejected": 8}, 1.0))
    progress(TurnDone("onnxruntime", 0, {"pass": 1200}, 1.0))
    progress(BugSeen(bug, new=True))
    progress(LaneStopped("onnxruntime", "it died"))
    if progress._live:
        progress._live.refresh()
        time.sleep(0.1)
"""


def shown_on_terminal(command: list[str], columns: int, **environment: str) -> str:
    """What a command writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    unset = ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    surroundings = {key: value for key, value in os.environ.items() if key not in unset}
    surroundings |= {"TERM": "xterm-256color", **environment}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=surroundings)
    os.close(theirs)
    shown = b""
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.05)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # its end is closed
                break
    process.wait()
    os.close(ours)
    return shown.decode()


def lines_of(shown: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines()]


def hunt(columns: int, *words: str) -> list[str]:
    return lines_of(shown_on_terminal([sys.executable, "-c", HUNT, *words], columns))


def test_a_line_for_each_compiler() -> None:
    lines = hunt(120)
    (head,) = {line for line in lines if line.startswith("compiler")}
    assert head.split() == "compiler programs a minute pass fail rejected unjudged bugs".split()
    tvm = next(line for line in lines if line.startswith("tvm "))
    assert re.fullmatch(r"tvm +40 +\d+ +30 +2 +8 +0 +1 +10 min left", tvm), tvm
    assert any(re.fullmatch(r"onnxruntime +1200 +\d+ .* 0 +stopped", line) for line in lines)
    assert any(line.startswith("1240 programs, ") and "1 bug" in line for line in lines)
    assert "new  tvm-1  abs(NaN) returns 0" in lines
    assert "Nothing has run yet, after 7 s." in lines
    assert not any(line.startswith("0 programs") for line in lines)  # while compilers are imported


def test_time_left_follows_from_the_rate_where_programs_are_counted() -> None:
    assert any(re.fullmatch(r"tvm .* \d+ (s|min) left", line) for line in hunt(120, "programs"))


def test_forty_columns_are_enough() -> None:
    lines = hunt(40)
    assert any(re.fullmatch(r"tvm +40 +\d+ +1 +10 min", line) for line in lines), lines
    assert any(re.fullmatch(r"onnxr\S* +1200 +\d+ +0 +stopped", line) for line in lines), lines
    assert any(line.startswith("inductor") and "…" in line for line in lines)
    assert all(len(line) <= 40 for line in lines)


def test_names_are_whole_where_they_fit_beside_fewer_columns() -> None:
    lines = hunt(80)
    assert any(re.fullmatch(r"inductor:freezing=true +0 +0 +0 +10 min", line) for line in lines), lines
    assert all(len(line) <= 80 for line in lines)


CHECK = """
import sys, time
from driftline.report.progress import Activity, Ticker
from driftline.events import Working

with Ticker("Checking a_program_with_a_long_name.py:program", 12) as ticker:
    ticker.started("onnxruntime:opt=all")
    ticker.started("inductor")
    time.sleep(0.2)
with Activity("Explaining", 60) as activity:
    activity(Working("localize", "climbing the ladder of simpler forms of the compiler"))
    time.sleep(0.2)
"""


@pytest.mark.parametrize("columns", [40, 120])
def test_a_bar_is_one_line(columns: int) -> None:
    shown = shown_on_terminal([sys.executable, "-c", CHECK], columns)
    lines = [line for line in lines_of(shown) if line]
    assert any("0/12" in line and "0:00:0" in line for line in lines), lines
    assert any(line.startswith("Explaining") for line in lines)
    assert all(len(line) <= columns for line in lines)
    assert "\x1b[1A\x1b[2K\x1b[1A" not in shown  # it never takes a second line, which would be erased too


def test_bugs_in_forty_columns_keep_their_names_and_words(tmp_path: Path) -> None:
    """The most serious first, as in any width."""
    with Store.create(tmp_path / "store") as store:
        mild = add_bug(store, Kind.ERROR, compiler="tvm", reason="it raises KeyError for a program that is valid")
        grave = add_bug(store, Kind.WRONG_VALUE, compiler="tvm", reason="at (0, 0) expected 1.0, got 1234567.0")
    command = [sys.executable, "-m", "driftline", "bugs", "list", "--store", str(tmp_path / "store")]
    lines = [line for line in lines_of(shown_on_terminal(command, 40)) if line]
    starts = [line.split()[0] for line in lines if line.startswith("tvm-")]
    assert starts == [grave.id, mild.id]
    assert "1234567.0" in " ".join(lines) and all(len(line) <= 40 for line in lines)


def test_no_cause_takes_a_mild_bug_before_a_serious_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bugs without a cause stand together, and so do those of one cause, but only among the equally serious."""
    place = tmp_path / "store"
    with Store.create(place) as store:
        serious_first = [
            add_bug(store, Kind.WRONG_VALUE, op="sin"),
            add_bug(store, Kind.CRASH, op="exp"),
            add_bug(store, Kind.ERROR, op="sin"),
            add_bug(store, Kind.TIMEOUT, op="exp"),
            add_bug(store, Kind.WRONG_VALUE, op="exp", status=Status.KNOWN),
        ]
    cause = replace(next(iter(builtin())), title="exp is a guess")
    monkeypatch.setattr(annotated, "causes_of", lambda bug, _: (cause,) if "exp" in bug.fingerprint.detail else ())
    assert run(["bugs", "list", "--store", str(place)]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("inductor-")]
    assert listed == [bug.id for bug in serious_first]
    assert sum("exp is a guess" in line for line in lines) == 2, "once for the crash, once for the last two"


def test_quiet_hunts_say_nothing() -> None:
    assert hunt(120, "quiet") == []


@pytest.mark.parametrize("how", ["--no-color", "NO_COLOR"])
def test_no_colours(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "driftline", "causes", "list", "--compiler", "xla"]
    assert "\x1b[" in shown_on_terminal(command, 100)
    given = [how] if how.startswith("-") else []
    without = shown_on_terminal([*command, *given], 100, **({} if given else {how: "1"}))
    assert "xla/" in without and "\x1b[" not in without


def test_quiet_has_no_progress_but_results_and_errors(tmp_path: Path) -> None:
    (tmp_path / "relu.py").write_text("import torch\n\n\ndef program():\n    return torch.relu, (torch.ones(3),)\n")
    command = [sys.executable, "-m", "driftline", "check", "relu.py:program", "--targets", "eager"]
    told = subprocess.run([*command, "--quiet"], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0 and not told.stderr and "1 pass" in told.stdout
    wrong = subprocess.run([*command[:4], "no.py:program", "-q"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 2 and "no.py" in wrong.stderr
