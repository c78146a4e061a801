"""Commands that explain a failure are given a program: it is checked first, that is seen, and can be interrupted."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driftline.cli import run

ROOT = Path(__file__).resolve().parents[2]
CLIP = f"{ROOT}/examples/bugs/onnxruntime_relu_clip_float64.py:program"


def test_the_check_is_told_line_by_line(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["reduce", CLIP, "--target", "onnxruntime:opt=off", "--store", str(store_folder)])
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"Checking {CLIP} ..."
    assert re.fullmatch(r"\[1/1\] onnxruntime:opt=off: pass after \d+\.\d s", said[1])
    assert code == 2 and "does not fail" in said[2]


SLOW_TO_START = """
import os, time
from driftline.backends import register_backend
from driftline.backends.onnxruntime import OnnxRuntime

@register_backend
class SlowToStart(OnnxRuntime):
    name = "slow-to-start"

    def warm(self):
        open(os.environ["STARTING"], "w").close()
        time.sleep(1000)
"""


def test_interrupted_while_a_compiler_starts_it_ends_at_once(
    store_folder: Path, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    plugin, starting = tmp_path / "slow.py", tmp_path / "starting"
    plugin.write_text(SLOW_TO_START)
    head = [sys.executable, "-m", "driftline", "reduce", CLIP, "--store", str(store_folder)]
    process = subprocess.Popen(
        [*head, "--target", "slow-to-start", "--plugin", str(plugin)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "STARTING": str(starting)},
    )
    eventually(starting.exists)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130 and "interrupted" in said and "Traceback" not in said


@pytest.mark.parametrize("command", ["reduce", "localize", "ablate", "bisect", "diagnose"])
def test_on_a_terminal_it_is_drawn_and_ends_at_once(command: str, store_folder: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "driftline", command, CLIP, "--store", str(store_folder)],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    with open(ours, "rb", buffering=0) as terminal:
        shown = b""
        while b"Checking" not in shown:
            shown += terminal.read(4096)
        process.send_signal(signal.SIGINT)
        while b"interrupted; everything found so far is in the store" not in shown:
            shown += terminal.read(4096)
        assert process.wait(timeout=120) == 130
    assert b"relu_clip_float64.py:program" in shown and b"\x1b[" in shown
