"""`driftline perf check`: a planted slow compiler is found, kept and measured again; its sound twin is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from known_times import know_times, planted_times

import driftline.testing
from driftline.checking.checker import Checker
from driftline.checking.open import LoadedProgram, open_source
from driftline.cli import run as command
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.program import SourceBundle
from driftline.core.target import Target, parse_targets
from driftline.perf.check import PerfOptions, baseline, parse_against, perf_check, require_twin, sample_case
from driftline.perf.comparison import Effort, Side
from driftline.perf.growth import Grower, GrowthEffort, sizes_to
from driftline.perf.recording import StoredFindings, record_slow
from driftline.perf.replay import replay_cost
from driftline.perf.settings import PerfHuntSettings, PerfSettings
from driftline.store import Store

PLUGIN = str(Path(driftline.testing.__file__).with_name("slow.py"))
TEXT = """
import torch

def run(x):
    {lines}

def make():
    torch.manual_seed(0)
    return run, (torch.randn(100, 500),)
"""
PROGRAM = TEXT.format(lines="return torch.softmax(torch.tanh(x), 1)")
TWIN = TEXT.format(lines="e = torch.exp(torch.tanh(x)); return e / e.sum(1, keepdim=True)")
OTHER = TEXT.format(lines="return torch.tanh(x)")
OPTIONS = CheckOptions(plugins=(PLUGIN,))
EFFORT = Effort(rounds=8)


@pytest.fixture(scope="module", autouse=True)
def plugin() -> None:
    load_plugins((PLUGIN,))


def opened(checker: Checker, text: str, name: str = "net.py") -> LoadedProgram:
    return open_source(SourceBundle(name, "make", {name: text}), checker.pool, OPTIONS)


@pytest.mark.parametrize("clock", ["known", pytest.param("real", marks=pytest.mark.slow)])
def test_a_slow_compiler_is_found_and_kept_and_its_sound_twin_is_not(
    clock: str,
    checker: Checker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if clock == "known":
        know_times(monkeypatch, planted_times)
    case = sample_case(opened(checker, PROGRAM), OPTIONS)
    with Store.create(tmp_path) as store:
        targets = parse_targets("planted-slow:factor=4,planted-slow:factor=1,eager")
        run = perf_check(checker, case, targets, PerfOptions(effort=EFFORT), keeper=StoredFindings(store))
        slow, sound, eager = run.rows
        assert slow.found and len(slow.measured) == 2 and slow.measured[0].ratio.low > 2 and (slow.floor or 0) >= 1
        assert not sound.found and not sound.bug and sound.measured
        assert not eager.found and eager.measured  # eager against itself

        (bug,) = store.bugs()
        assert (bug.fingerprint.kind, bug.fingerprint.stage) == ("slow", "RUN") and bug.id == slow.bug
        assert bug.fingerprint.detail == "softmax+tanh of float" and "as long as eager" in bug.summary
        assert replay_cost(store, bug.id, checker, effort=EFFORT).answer == "still fails"
        assert store.bug(bug.id).status == "confirmed"
    assert command(["bugs", "show", bug.id, "--store", str(tmp_path)]) == 0
    shown = capfd.readouterr().out
    assert "slow at RUN" in shown


def test_a_twin_must_compute_the_same_and_is_what_a_target_is_held_against(checker: Checker, tmp_path: Path) -> None:
    program = opened(checker, PROGRAM)
    case = sample_case(program, OPTIONS)
    with pytest.raises(DriftlineError, match="does not compute what"):
        require_twin(checker, program, opened(checker, OTHER, "other.py"), case)
    twin = require_twin(checker, program, opened(checker, TWIN, "twin.py"), case)
    run = perf_check(checker, case, [Target("eager")], PerfOptions(effort=EFFORT, twin=twin))
    (row,) = run.rows
    assert row.against == "twin" and row.measured
    with Store.create(tmp_path) as store:
        slow = replace(row, measured=(row.measured[0], row.measured[0]))
        bug = record_slow(store, Side(case, Target("eager"), "eager"), Side(twin, Target("eager"), "twin"), slow, 1.5)
        kept = bug.findings[0].verdict["perf"]["slow"]
        assert store.load_case(kept["baseline_case"]).program.digest == twin.program.digest


def test_what_has_no_unoptimised_mode_is_said(checker: Checker) -> None:
    case = sample_case(opened(checker, PROGRAM), OPTIONS)
    assert baseline(checker, case, Target("eager"), "plain") == "eager has no unoptimised mode"
    assert "its own" in str(baseline(checker, case, Target.parse("planted-slow:factor=1"), "plain"))
    plain = baseline(checker, case, Target("onnxruntime"), "plain")
    assert isinstance(plain, Side) and str(plain.target) == "onnxruntime:opt=off"
    assert parse_against("plain, eager,plain") == ("plain", "eager")


def test_sizes_go_up_to_the_most_operators_and_too_few_are_said(checker: Checker) -> None:
    assert sizes_to(80) == (10, 20, 40, 80) and sizes_to(700)[-2:] == (320, 640)
    case = sample_case(opened(checker, PROGRAM), OPTIONS)
    row = Grower(checker, case, GrowthEffort(sizes_to(40)), 1.5, lambda words: None).measure(Target("eager"))
    assert "has 2 operators" in row.problem and "raise --nodes" in row.problem


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--targets egar", "eager"),
        ("--targets eager --against plian", "Did you mean 'plain'"),
        ("--targets eager --against ,", "--against is empty"),
        ("--targets eager --ratio 0.5", "x>=1.05"),
        ("--targets eager --repeat 3", "x>=8"),
        ("--targets eager --growth --nodes 40", "80<=x"),
        ("--targets eager --against plain --twin a.py:b", "leave out --against"),
        ("--targets eager", "net.py: there is no such file"),
        ("", "--targets"),
    ],
)
def test_bad_options_are_one_sentence(
    arguments: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(["perf", "check", "net.py:make", *arguments.split()]) == 2
    said = capfd.readouterr().err
    assert told in said and "Traceback" not in said


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_command_finds_slow_calls_and_compile_time_that_grows_too_fast(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program, store = tmp_path / "net.py", tmp_path / "store"
    program.write_text(PROGRAM)
    targets = "planted-slow:factor=4:compile=quadratic,planted-slow:factor=1:compile=linear"
    asked = [
        "perf",
        "check",
        f"{program}:make",
        "--targets",
        targets,
        "--growth",
        "--nodes",
        "160",
        "--repeat",
        "8",
        "--against",
        "plain",
    ]
    assert command([*asked, "--json", "--store", str(store), "--plugin", PLUGIN]) == 1
    told = json.loads(capfd.readouterr().out)
    assert [row["conclusion"] == "slow" for row in told["rows"]] == [True, False]
    quadratic, linear = told["growth"]
    assert quadratic["found"] == ["slow-compile"] and quadratic["bugs"] and len(quadratic["time_exponents"]) == 2
    assert not linear["found"] and linear["time_exponents"][0]["value"] < 1.4
    with Store.open(store) as kept:
        bugs = {bug.fingerprint.kind: bug.id for bug in kept.bugs()}
    assert set(bugs) == {"slow", "slow-compile"}
    script = tmp_path / "slow.py"
    assert command(["export", bugs["slow"], "--out", str(script), "--store", str(store), "--plugin", PLUGIN]) == 0
    assert "it shows the difference" in capfd.readouterr().err and "medians([" in script.read_text()
    assert command(["export", bugs["slow-compile"], "--store", str(store), "--plugin", PLUGIN]) == 0
    assert "it shows the growth" in capfd.readouterr().err
    assert command(["export", bugs["slow"], "--as", "issue", "--store", str(store), "--plugin", PLUGIN]) == 2
    again = ["replay", bugs["slow"], "--store", str(store), "--plugin", PLUGIN]
    assert command([*again, "--target", "planted-slow:factor=1"]) == 0
    assert "passes" in capfd.readouterr().out
    with Store.open(store) as kept:
        assert kept.bug(bugs["slow"]).status == "new"  # that was another target


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(DriftlineError, match="leave out what to compare against"):
        PerfSettings(targets=["eager"], twin="layout", against=["plain"])
    with pytest.raises(DriftlineError, match="no twin 'layuot'"):
        PerfSettings(targets=["eager"], twin="layuot")
    with pytest.raises(DriftlineError, match="A resumed hunt has its targets"):
        PerfHuntSettings(resume=True, targets=["eager"])
    made, given = PerfSettings(targets=["eager"], twin="layout"), PerfSettings(targets=["eager"], twin="twin.py:make")
    assert (made.twin_program, made.options().against) == ("", ("layout",))
    assert (given.twin_program, given.options().against) == ("twin.py:make", ())
