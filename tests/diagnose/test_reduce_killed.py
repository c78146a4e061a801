"""`driftline reduce` killed without warning, at any moment: the same command goes on from what was asked already."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from driftline.cli import run
from driftline.store import Store
from driftline.store.reductions import Answers, Reductions

PLUGIN = Path(__file__).with_name("reduce_backends.py")
# Two operators matter; between them lies much that does not, and more of their kind, so that many questions are asked.
LONG = 24
KINDS = ("Sin", "Erf", "Softplus", "Cos", "Tanh")
BETWEEN = "\n".join(f"    v{at + 1} = {KINDS[at % len(KINDS)]}(v{at})" for at in range(LONG))
MODEL = f"""
<ir_version: 8, opset_import: ["": 18]>
long (float[8] x) => (float[8] y) {{
    v0 = Erf(x)
{BETWEEN}
    y = Softplus(v{LONG})
}}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed") / "long.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), str(path))
    return path


def command(model: Path, store: Path) -> list[str]:
    options = ["--target", "odd-far-apart", "--inputs", "random", "--plugin", str(PLUGIN), "--store", str(store)]
    return ["reduce", str(model), *options]


def answers(store: Path) -> int:
    """How many are on disk, as another process sees it."""
    try:
        with sqlite3.connect(f"file:{store / 'store.db'}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT COUNT(*) FROM answers").fetchone()[0])
    except sqlite3.OperationalError:  # not there yet
        return 0


def kill_after(line: list[str], store: Path, wanted: int) -> int:
    """Kill the command as soon as so many answers are kept; how many there were then."""
    started = subprocess.Popen(
        [sys.executable, "-m", "driftline", *line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while started.poll() is None and answers(store) < wanted:
        time.sleep(0.002)
    assert started.poll() is None, "it came to its end before it could be killed"
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    return answers(store)


@pytest.mark.parametrize("kills", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_every_answer_survives_a_kill(model: Path, store_folder: Path, kills: int) -> None:
    whole = store_folder.parent / "whole"
    assert run(command(model, whole)) == 1
    total = answers(whole)
    with Store.open(whole) as store:
        (bug,) = store.bugs()
        expected = Reductions(store).of(bug.id)
    assert expected and expected["after"]["operators"] == 2

    moments = sorted(random.Random(kills).sample(range(1, total - 1), kills))
    kept = 0
    for moment in moments:
        seen = kill_after(command(model, store_folder), store_folder, moment)
        assert seen >= max(kept, moment), "an answer was lost"
        kept = seen
    assert run(command(model, store_folder)) == 1
    with Store.open(store_folder) as store:
        (bug,) = store.bugs()
        found = Reductions(store).of(bug.id)
        asked = len(Answers(store))
    assert found and found["program"]["text"] == expected["program"]["text"], "the way there does not matter"
    assert found["ended"] == "1-minimal"
    assert asked == total, "nothing was asked that a single run would not have asked"
    assert found["remembered"] >= kept
