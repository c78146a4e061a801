"""`driftline bisect` with a compiler whose releases are made by hand: nothing is downloaded."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from driftline.campaign.explain import bisection
from driftline.checking.checker import Checker
from driftline.cli import run
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.diagnose.bisect import ReleaseAnswer
from driftline.execute.environments import Environment, list_environments
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses
from typed import typed

# Wrong in 2.0 and 2.1; 1.1 does not take the model.
COMPILER = """\
import os

import numpy as np

from driftline.backends import register_backend
from driftline.backends.base import Backend, Unsupported


@register_backend
class Demo(Backend):
    name = "demo"
    accepts = ("onnx",)
    module = "demo_compiler"  # not in this interpreter: other tests never meet it
    distribution = "demo-compiler"

    def warm(self):
        pass

    def compile(self, program, options):
        release = os.environ["DEMO_RELEASE"]
        if release == "1.1":
            raise Unsupported("no Abs yet")
        off = 1 if release in ("2.0", "2.1") else 0
        return lambda arrays: {"y": np.abs(arrays["x"]) + np.float32(off)}
"""
MODEL = '<ir_version: 8, opset_import: ["": 18]> g (float[3] x) => (float[3] y) { y = Abs(x) }'


def make_environment(home: Path, release: str) -> Environment:
    """What `driftline env add` would make: here, this interpreter with the release in a variable."""
    folder = home / "environments" / f"demo-compiler-{release}"
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text(f'#!/bin/sh\nDEMO_RELEASE={release} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    record = {"package": "demo-compiler", "version": release, "extras": [], "made": "2026-01-01T00:00:00"}
    (folder / "environment.json").write_text(json.dumps(record))
    return Environment("demo-compiler", release, str(folder))


def test_environments_are_described_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path))
    made = make_environment(tmp_path, "1.0")

    def told(command: str) -> dict[str, Any]:
        assert run(command.split()) == 0
        answer: dict[str, Any] = json.loads(capfd.readouterr().out)
        return answer

    added = told("env add demo-compiler==1.0 --json")["environment"]  # it is there, and taken as it is
    assert (added["requirement"], added["path"]) == ("demo-compiler==1.0", made.path)
    assert told("env list --json")["environments"] == [added]
    assert told("env remove demo-compiler==1.0 --json")["removed"] == "demo-compiler==1.0"
    assert told("env list --json")["environments"] == []


EVERY = ["1.0", "1.1", "1.2", "2.0", "2.1", "2.2", "3.0"]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder whose store has one bug, seen in release 2.1, and the bug; 1.0 and 2.1 are installed."""
    folder = tmp_path_factory.mktemp("found")
    (folder / "demo.py").write_text(COMPILER)
    onnx.save(onnx.parser.parse_model(MODEL), folder / "abs.onnx")
    for release in ("1.0", "2.1"):
        make_environment(folder / "cache", release)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("DRIFTLINE_CACHE", str(folder / "cache"))
        told = typed(*"check abs.onnx --inputs random --targets demo@2.1 --plugin demo.py --json".split())
    assert told.returncode == 1, told.stderr
    return folder, str(json.loads(told.stdout)["bugs"][0]["id"])


@pytest.fixture
def bug(found: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The bug, in the current folder: a copy that is the test's own, with its store and environments."""
    folder, identity = found
    shutil.copytree(folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path / "cache"))
    return identity


class Known:
    """In place of compilers, which were asked once: what their releases answered."""

    def __init__(self, checker: Checker, failing: bisection.Failing) -> None:
        assert failing.target.version == "2.1"

    def __call__(self, checker: Checker, target: Target) -> tuple[ReleaseAnswer, str]:
        return {"1.0": (ReleaseAnswer.GOOD, "as it should be"), "2.1": (ReleaseAnswer.BAD, "off by one")}[
            target.version
        ]


def test_releases_that_are_here(bug: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bisection, "list_releases", lambda package: EVERY)
    assert run(["bisect", bug, "--installed"]) == 1
    out = capfd.readouterr().out
    assert "first bad 2.1 of those asked (1.0 is good; 3 releases between them were not asked). (2 of 7 rel" in out

    monkeypatch.setattr(bisection, "_WrongResult", Known)

    def unreachable(package: str) -> list[str]:
        raise DriftlineError("There is no index.")

    monkeypatch.setattr(bisection, "list_releases", unreachable)
    assert run(["bisect", bug, "--installed"]) == 1
    assert "first bad 2.1 of those asked (1.0 is good).\n" in capfd.readouterr().out
    assert run(["bisect", bug, "--installed", "--good", "2.1", "--bad", "2.1"]) == 2


def test_a_program_is_checked_first(bug: str, capfd: pytest.CaptureFixture[str]) -> None:
    command = "bisect relu_clip.py:program --target onnxruntime --installed --store made"
    text = (Path(__file__).parents[2] / "examples/bugs/onnxruntime_relu_clip_float64.py").read_text()
    Path("relu_clip.py").write_text(text)
    assert run(command.split()) == 1
    assert ", the only release asked.\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--good", "9.9"], "demo-compiler 9.9 is no release that installs here. Near it: 3.0."),
        (["--bad", "2.11"], "demo-compiler 2.11 is no release that installs here. Did you mean '2.1' or '2.2'?"),
        (["--good", "9.9", "--installed"], "demo-compiler 9.9 is not installed here, and --installed asks only"),
        (["--releases", "7.5", "--installed"], "demo-compiler 7.5 is not installed here"),
    ],
)
def test_a_release_that_is_not_there_leaves_the_stored_result(
    bug: str, arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bisection, "list_releases", lambda package: EVERY)
    with Store.create(Path(".driftline")) as store:
        Diagnoses(store).save(bug, bisection.STEP, {"summary": "found before"})
    assert run(["bisect", bug, *arguments]) == 2
    assert told in capfd.readouterr().err
    with Store.open(Path(".driftline")) as store:
        assert Diagnoses(store).of(bug, bisection.STEP) == {"summary": "found before"}


@pytest.mark.slow
def test_releases_are_made_asked_and_removed(
    bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def add(requirement: str, report: object = None) -> Environment:
        made.append(requirement)
        return make_environment(tmp_path / "cache", requirement.partition("==")[2])

    monkeypatch.setattr(bisection, "list_releases", lambda package: EVERY)
    monkeypatch.setattr(bisection, "download_size", lambda requirements: 5_000_000)
    monkeypatch.setattr(bisection, "add_environment", add)
    assert run(["bisect", bug, "--json"]) == 1
    streams = capfd.readouterr()
    found = json.loads(streams.out)
    assert (found["first_bad"], found["first_good"]) == ("2.0", "2.2")
    assert found["bad_ranges"] == [["2.0", "2.1"]]
    assert "demo-compiler==3.0: a download of at most 5 MB" in streams.err
    assert {e.version for e in list_environments()} == {"1.0", "2.1"}, "what was made is removed again"
    assert [trial["release"] for trial in found["trials"]][:2] == ["2.1", "1.0"], "what is here comes first"
    with Store.open(Path(".driftline")) as store:
        kept = Diagnoses(store).of(bug, bisection.STEP)
    assert kept and kept["summary"] == found["summary"]

    assert run(["bisect", bug, "--keep", "--good", "1.2", "--bad", "2.1", "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["releases"] == ["1.2", "2.0", "2.1"]
    assert {e.version for e in list_environments()} == {"1.0", "1.2", "2.0", "2.1"}

    assert run(["bisect", bug, "--releases", "3.0", "--max-download", "1MB"]) == 1
    assert "not asked: a download of 5 MB" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--package", "onnxruntime"], "is not in the package 'onnxruntime'. Its packages: demo-compiler."),
        (["--max-download", "much"], "write a size such as 500MB or 4GB"),
        (["--installed", "--good", "2.1", "--bad", "1.0"], "2.1 was named as --good, but the answer is bad"),
    ],
)
def test_mistakes_are_named(
    bug: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    monkeypatch.setattr(bisection, "_WrongResult", Known)
    assert run(["bisect", bug, *arguments]) == 2
    assert told in capfd.readouterr().err


def test_gigabytes_are_not_downloaded_by_surprise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path))
    with pytest.raises(Exception, match="name those to ask"):
        bisection._offer("torch", bisection.ReleaseWish(), "2.13.0", "2.13.0")
    named = bisection._offer("torch", bisection.ReleaseWish(releases=("2.9.0", "2.12.0")), "2.13.0", "2.13.0")
    assert named.releases == ["2.9.0", "2.12.0", "2.13.0"] and not named.complete
    monkeypatch.setattr(bisection, "list_releases", lambda package: ["2.9.0", "2.10.0", "2.12.0", "2.13.0", "2.14.0"])
    wish = bisection.ReleaseWish(good="2.9.0", bad="2.12.0")
    every = bisection._offer("torch", wish, "2.13.0", "2.13.0")
    assert every.complete and len(every.releases) == 5
    assert bisection._between(every.releases, wish, "2.13.0") == ["2.9.0", "2.10.0", "2.12.0"]


def test_a_reason_that_is_only_a_heading_says_how_it_ends() -> None:
    assert bisection._shortened("raised: TypeError: in user code:\n\n  File f\n    bad operand\n").endswith(
        "bad operand"
    )
    assert bisection._shortened("shapes differ\nmore") == "shapes differ"
