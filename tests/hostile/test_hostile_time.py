"""A program that takes almost as long as it may, in every one of the runs that a check makes."""

from __future__ import annotations

import contextlib
import io
import time
from pathlib import Path

import pytest

from driftline.checking.checker import Checker, Skipped, TargetResult, whole_time
from driftline.checking.open import open_program
from driftline.cli import run
from driftline.core import strangers
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.execute.pool import Pool
from driftline.execute.time_left import TimeLimit, time_limit, within
from hostile.attack import Attack, both_ways, replacing

pytest.importorskip("torch")

# Opened for each run. What it returns depends on who runs it, so that its failures are looked at again and again.
SLEEPER = """
import time
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1 if torch.compiler.is_compiling() else x

def make():
    time.sleep({seconds})
    return Net(), (torch.ones(3),)
"""
TIMEOUT, SLEEP, LIMIT = 8, 4, 12  # seconds


def _checked(place: Path, targets: str) -> tuple[float, int, str]:
    """Check the program; return the seconds that it took, the exit code, and what was printed."""
    (place / "net.py").write_text(SLEEPER.format(seconds=SLEEP))
    words = ["check", f"{place}/net.py:make", "--targets", targets, "--store", f"{place}/s", "--timeout", str(TIMEOUT)]
    said = io.StringIO()
    began = time.monotonic()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = run([*words, "--jobs", "1"])
    return time.monotonic() - began, code, said.getvalue()


def _limited(place: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("driftline.checking.checker", "driftline.campaign.check.session"):
            patch.setattr(f"{name}.whole_time", lambda options, targets: LIMIT)
        took, code, said = _checked(place, "aot_eager")
    if "not finished within 12 s, the limit of the whole check" not in said:
        return "the check takes as long as all its runs together"
    assert code == 5
    assert took < 10 * LIMIT  # a busy machine starts processes slowly
    return ""


def _never() -> TimeLimit:
    return TimeLimit()


ATTACKS = [
    Attack("sleeps-almost-to-the-limit-each-time", _limited, replacing("driftline.execute.pool.time_limit", _never))
]
test_attack_fails = both_ways(ATTACKS)


def test_what_was_found_before_the_limit_is_kept(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.py").write_text(SLEEPER.format(seconds=0))
    options = CheckOptions()
    with strangers.one_run():
        opened = open_program(f"{tmp_path}/net.py:make", pool, options)
        targets = (Target("aot_eager"), Target("onnxruntime"))
        case = Case(opened.program, (Inputs(opened.example, "example"),), targets, options)

        def end_with_the_first(target: Target, row: TargetResult | Skipped | None) -> None:
            if row is not None:
                for place in ("driftline.checking.checker", "driftline.execute.pool"):
                    monkeypatch.setattr(f"{place}.time_limit", lambda: TimeLimit(0.0, 1800.0))

        outcome = Checker(pool, jobs=1).check(case, end_with_the_first)
    assert [row.verdict.judgement for row in outcome.results].count(Judgement.INCONCLUSIVE) == 1
    told = [row.verdict.reason for row in outcome.results if row.verdict.judgement is Judgement.INCONCLUSIVE]
    assert told == ["not finished within 30 minutes, the limit of the whole check; a larger --timeout raises it"]


@pytest.mark.parametrize(("timeout", "targets", "minutes"), [(300.0, 1, 30), (300.0, 5, 70), (5.0, 2, 10)])
def test_limit_grows_with_the_time_of_a_run_and_the_targets(timeout: float, targets: int, minutes: int) -> None:
    assert whole_time(CheckOptions(timeout=timeout), targets) == minutes * 60


def test_limit_inside_of_a_limit_changes_nothing() -> None:
    with within(60):
        outer = time_limit()
        with within(5):
            assert time_limit() == outer
    assert time_limit() == TimeLimit()
