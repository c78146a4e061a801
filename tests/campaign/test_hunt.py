"""A hunt finds what is planted, names it by its operator, keeps it once, and survives being killed at any moment."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driftline.cli import run
from driftline.report.gather import gather_store
from driftline.store import Store
from driftline.store.hunts import HuntLog
from typed import typed

PLUGIN = str(Path(__file__).parent / "wrong_abs.py")
PROGRAMS = 36  # turns of 4, 8, 15 and 9: several are in hand at once


def command(store: Path, *more: str) -> list[str]:
    head = [sys.executable, "-m", "driftline", "hunt", "--plugin", PLUGIN, "--targets", "wrong-abs", "--seed", "3"]
    return [*head, "--programs", str(PROGRAMS), "--generators", "few,mutate", "--store", str(store), "--json", *more]


def resumption(store: Path) -> list[str]:
    return [sys.executable, "-m", "driftline", "hunt", "--resume", "--plugin", PLUGIN, "--store", str(store), "--json"]


def hunted(store: Path) -> dict[str, Any]:
    """What is in the store, without times."""
    with Store.open(store) as opened:
        log = HuntLog(opened)
        (hunt,) = log.hunts()
        turns = [(turn.lane, turn.number, replace(turn.body, seconds=0.0, slowest=())) for turn in log.turns(hunt)]
        bugs = {bug.id: opened.bug(bug.id) for bug in opened.bugs()}
        return {
            "finished": bool(hunt.finished),
            "turns": turns,
            "suspects": log.settled(hunt),
            "bugs": {name: str(bug.fingerprint) for name, bug in bugs.items()},
            "cases": {name: sorted({finding.case_id for finding in bug.findings}) for name, bug in bugs.items()},
        }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    store = tmp_path_factory.mktemp("hunt") / "store"
    done = typed(*command(store, "--jobs", "1")[3:])
    assert done.returncode == 1, done.stderr
    return store, json.loads(done.stdout)


def test_planted_bugs_are_found_once_by_their_operator(undisturbed: tuple[Path, dict[str, Any]]) -> None:
    _, answer = undisturbed
    details = [bug["fingerprint"]["detail"] for bug in answer["bugs"] if bug["fingerprint"]["kind"] == "wrong-value"]
    assert "abs of float" in details
    assert len(details) == len(set(details))
    crashes = [bug["fingerprint"]["detail"] for bug in answer["bugs"] if bug["fingerprint"]["kind"] == "crash"]
    assert any("in sign of" in detail for detail in crashes)
    assert answer["programs"] == {"wrong-abs": PROGRAMS}


def test_every_bug_replays(undisturbed: tuple[Path, dict[str, Any]]) -> None:
    store, answer = undisturbed
    bug = next(bug for bug in answer["bugs"] if bug["fingerprint"]["detail"] == "abs of float")
    done = typed(*bug["replay"].split()[1:])
    assert done.returncode == 1, done.stderr
    assert "still fails" in done.stdout
    assert str(store) in bug["replay"]


def test_same_seed_same_hunt_whatever_the_number_of_jobs(
    undisturbed: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    store, _ = undisturbed
    typed(*command(tmp_path / "s", "--jobs", "8")[3:])
    assert hunted(tmp_path / "s") == hunted(store)
    assert len(hunted(store)["turns"]) > 3, "so few turns that hardly two were in hand at once"


def kill_and_resume(store: Path, kills: int, rng: random.Random) -> None:
    """Kill the hunt so many times at random moments of its work, then let it come to its end."""
    for number in range(kills + 1):
        words = resumption(store) if number else command(store)
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("Hunting on"):
                break
        try:
            process.wait(timeout=rng.uniform(0.0, 3.0) if number < kills else 300)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            continue
        assert process.returncode == 1, "".join(said) + process.stderr.read()
        return  # it came to its end before it was killed


def test_killed_and_resumed_it_ends_as_if_nothing_had_happened(
    undisturbed: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    kill_and_resume(tmp_path / "s", kills=1, rng=random.Random(1))
    assert hunted(tmp_path / "s") == hunted(undisturbed[0])


@pytest.mark.parametrize("sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_interrupted_it_says_how_to_go_on(
    undisturbed: tuple[Path, dict[str, Any]], tmp_path: Path, sent: signal.Signals
) -> None:
    store = tmp_path / "s"
    process = subprocess.Popen(command(store), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    seen = ""
    for line in process.stderr:
        if line.startswith(("new ", "  0.")):  # it is at work
            seen = line.split()[1] if line.startswith("new ") else ""
            break
    process.send_signal(sent)
    found, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    printed = json.loads(found)  # what there is, also now
    assert printed["interrupted"] and (not seen or seen in [bug["id"] for bug in printed["bugs"]])
    assert "driftline hunt --resume" in said and "Traceback" not in said
    done = typed(*resumption(store)[3:])
    assert done.returncode == 1, done.stderr
    assert hunted(store) == hunted(undisturbed[0])


@pytest.mark.slow
def test_killed_fifty_times(undisturbed: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    rng = random.Random(2)
    for number in range(10):
        kill_and_resume(tmp_path / f"s{number}", kills=5, rng=rng)
        assert hunted(tmp_path / f"s{number}") == hunted(undisturbed[0])


@pytest.mark.slow
def test_two_hunts_share_a_store(tmp_path: Path) -> None:
    store = tmp_path / "s"
    processes = [
        subprocess.Popen(
            [*command(store), "--programs", "20", "--seed", seed], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for seed in ("1", "2")
    ]
    for process in processes:
        _, said = process.communicate(timeout=300)
        assert process.returncode in (0, 1), said.decode()
    with Store.open(store) as opened:
        assert len(HuntLog(opened).hunts()) == 2
        assert all(hunt.finished for hunt in HuntLog(opened).hunts())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--budget", "soon"], "write a time with its unit"),
        (["--budget", "1m", "--programs", "3"], "not both"),
        (["--targets", "onnxruntim"], "Did you mean 'onnxruntime'"),
        (["--generators", "grph"], "Did you mean 'graph'?"),
        (["--inputs", "special"], "Did you mean 'specials'?"),
        (["--accept", "reduced-precison"], "Did you mean 'reduced-precision'?"),
        (["--resume"], "no unfinished hunt"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["hunt", "--store", str(tmp_path / "s"), *arguments]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert "Traceback" not in told


NEEDY = """
from driftline.generate import register_generator
from driftline.generate.base import Generator


@register_generator
class Needy(Generator):
    name = "needy"
    forms = ("onnx",)

    def arms(self, form):
        import a_package_that_nobody_has
"""


def test_a_generator_that_lacks_a_package_is_left_out(tmp_path: Path) -> None:
    plugin = tmp_path / "needy.py"
    plugin.write_text(NEEDY)
    lacks = "needy makes no onnx programs here: the package a_package_that_nobody_has is not installed"
    both, alone = (
        subprocess.run(
            [*command(tmp_path / "s", "--plugin", str(plugin)), "--programs", "3", "--generators", names],
            capture_output=True,
            text=True,
            timeout=300,
        )
        for names in ("few,needy", "needy")
    )
    assert both.returncode in (0, 1), both.stderr
    assert f"Left out: {lacks}." in both.stderr
    assert alone.returncode == 2
    assert f"which wrong-abs needs: {lacks}." in alone.stderr
    with Store.open(tmp_path / "s") as store:
        statistics = gather_store(store).statistics
        assert statistics and f"{lacks}." in statistics.untested
    assert "Traceback" not in alone.stderr


@pytest.mark.slow  # test_later_calls.py takes its steps one by one
def test_what_is_right_in_a_first_call_alone(tmp_path: Path) -> None:
    plugin = str(Path(__file__).parent / "stale_exp.py")
    done = subprocess.run(
        [
            *command(tmp_path / "s", "--plugin", plugin),
            "--targets",
            "stale-exp",
            "--programs",
            "15",
            "--generators",
            "some",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    bugs = {bug["fingerprint"]["detail"]: bug for bug in json.loads(done.stdout)["bugs"]}
    stale = next(bug for detail, bug in bugs.items() if re.fullmatch(r"exp after another call of \w+", detail))
    again = subprocess.run(  # a process of its own: here the script would be written with the plugin at hand
        [sys.executable, "-m", *stale["replay"].split()], capture_output=True, text=True, timeout=300
    )
    assert "still fails" in again.stdout
    with Store.open(tmp_path / "s") as store:
        shown = next(bug for bug in gather_store(store).bugs if bug.id == stale["id"])
        assert store.bug(stale["id"]).findings[0].verdict["sighting"]["later_call"]
    assert shown.script.startswith("# A first call is right")


@pytest.mark.slow
def test_less_precision_is_no_finding_once_it_is_accepted(tmp_path: Path) -> None:
    """And counts as a bug of its own kind before."""
    plugin = str(Path(__file__).parent / "narrow_double.py")
    what = ["--targets", "narrow-double", "--generators", "plain", "--inputs", "random", "--programs", "15"]
    kinds: list[set[str]] = []
    for name in ("none", "reduced-precision"):
        done = subprocess.run(
            [*command(tmp_path / name, "--plugin", plugin), *what, "--accept", name],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode in (0, 1), done.stderr
        kinds.append({bug["fingerprint"]["kind"] for bug in json.loads(done.stdout)["bugs"]})
    assert "reduced-precision" in kinds[0] and "reduced-precision" not in kinds[1]
    with Store.open(tmp_path / "reduced-precision") as store:
        (hunt,) = HuntLog(store).hunts()
        assert HuntLog(store).settled(hunt)["accepted"] >= 1
