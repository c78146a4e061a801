"""Two runs of the suite compared: what changed beyond noise, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from handmade import row, run

from driftline.bench.compare import compare_runs
from driftline.bench.result import BenchRun, read_run
from driftline.cli import run as command
from driftline.core.errors import DriftlineError

EAGER = row("eager", 1.0, 100, graphs=None)


def kinds(before: BenchRun, after: BenchRun) -> list[tuple[str, bool]]:
    return [(change.what, change.worse) for change in compare_runs(before, after).changes]


def test_the_same_again_is_no_change() -> None:
    assert kinds(run(EAGER, row("inductor", 1.5, 1)), run(EAGER, row("inductor", 1.5, 7))) == []


def test_a_slower_machine_is_no_change() -> None:
    """All times are twice as long, those of eager too."""
    before = run(EAGER, row("inductor", 1.5, 1))
    old = row("inductor", 1.5, 9)
    assert old.rounds and old.eager_rounds
    twice = [
        replace(c, wall=tuple(2 * t for t in c.wall), cpu=tuple(2 * t for t in c.cpu))
        for c in (old.rounds, old.eager_rounds)
    ]
    assert kinds(before, run(EAGER, replace(old, rounds=twice[0], eager_rounds=twice[1]))) == []


@pytest.mark.parametrize(("factor", "worse"), [(1.2, True), (1.8, False)])
def test_another_speed_up_is_a_change_with_its_interval(factor: float, worse: bool) -> None:
    found = compare_runs(run(EAGER, row("inductor", 1.5, 1)), run(EAGER, row("inductor", factor, 7)))
    (change,) = found.changes
    assert (change.what, change.worse, found.worse) == ("speed", worse, worse)
    assert change.factor and change.factor.low < 1.5 / factor < change.factor.high


def test_noise_of_either_run_hides_a_small_change() -> None:
    before, after = run(EAGER, row("inductor", 1.5, 1)), run(EAGER, row("inductor", 1.3, 7))
    assert kinds(before, after) == [("speed", True)]
    noisy = replace(EAGER, speedup=replace(EAGER.speedup, low=0.8, high=1.25))
    assert kinds(before, replace(after, rows=(noisy, after.rows[1]))) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"verdict": "fail", "reason": "wrong"}, [("verdict", True)]),
        ({"graphs": 3, "breaks": ("why", "why")}, [("graphs", True), ("breaks", True)]),
        ({"violations": 4}, [("violations", False)]),
        ({"compile_cpu": 4.0}, [("compile", True)]),
        ({"compile_cpu": 2.5}, []),
        ({"compile_seconds": 9.0}, []),  # a busy machine
        ({"compile_seconds": 9.0, "compile_cpu": None}, [("compile", True)]),  # of a run that kept no CPU time
        ({"run_peak": 60 << 20}, [("memory", False)]),
        ({"run_peak": 105 << 20}, []),
    ],
)
def test_counts_and_amounts(given: dict[str, object], expected: list[tuple[str, bool]]) -> None:
    before = run(EAGER, row("mock", 1.5, 1, violations=9))
    after = run(EAGER, row("mock", 1.5, 1, **{"violations": 9, **given}))
    assert kinds(before, after) == expected


def test_a_target_that_fails_now_is_worse() -> None:
    broken = row("inductor", 1.5, 1, outcome="CRASH", problem="SIGSEGV", speedup=None, rounds=None, eager_rounds=None)
    found = compare_runs(run(EAGER, row("inductor", 1.5, 1)), run(EAGER, broken))
    assert [(c.what, c.after, c.worse) for c in found.changes] == [("outcome", "CRASH: SIGSEGV", True)]


def test_the_command_reads_what_was_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folders = []
    for name, factor in (("old", 1.5), ("new", 1.1)):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        written = run(EAGER, row("inductor", factor, 1), machine=f"{name} machine")
        written.write(folders[-1])
        assert read_run(folders[-1]) == written
    assert command(["bench", "compare", *map(str, folders)]) == 1
    told = capfd.readouterr().out
    assert "worse  bert on inductor: speed 1.5" in told and "The machines differ" in told
    assert command(["bench", "compare", str(folders[0]), str(folders[0] / "bench.json"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["changes"] == []


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "there is no such file or folder"),
        ("{", "is not a run of `driftline bench`"),
        ('{"rows": [], "schema": 99}', "another release of Driftline (schema 99)"),
        ('{"rows": [], "schema": 1}', "is not a run of `driftline bench`"),
    ],
)
def test_a_bad_file_is_one_sentence(
    content: str | None, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bench.json"
    if content is not None:
        path.write_text(content)
    assert command(["bench", "compare", str(path), str(path)]) == 2
    said = capfd.readouterr().err
    assert told in said and "Traceback" not in said


def test_runs_of_different_sizes_are_not_compared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, size in (("old", "small"), ("new", "full")):
        (tmp_path / name).mkdir()
        run(EAGER, size=size).write(tmp_path / name)
    assert command(["bench", "compare", str(tmp_path / "old"), str(tmp_path / "new")]) == 2
    assert "measure both alike" in capfd.readouterr().err


def test_a_file_nested_without_end_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text("[" * 100_000)
    with pytest.raises(DriftlineError):
        read_run(path)
