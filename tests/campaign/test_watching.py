"""Watching a compiler: bugs that are fixed, back and new, told apart over several rounds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from driftline.campaign.hunt import watching
from driftline.campaign.hunt.result import HuntResult
from driftline.campaign.hunt.watching import WatchResult, WatchSettings, replay_all, settle, watched_targets
from driftline.checking.result import ReplayAnswer, Standing
from driftline.cli import run
from driftline.core.target import Target
from driftline.core.verdict import Fingerprint, Status
from driftline.execute import releases
from driftline.execute.environments import list_environments
from driftline.execute.releases import release_key
from driftline.report.watch import headline, write
from driftline.store import Bug, Store
from driftline.store.hunts import HuntLog
from driftline.workbench import Workbench

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

NAME = "sometimes-wrong"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy(Path(__file__).parent / "sometimes_wrong.py", tmp_path_factory.mktemp("plugin")))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Iterator[Workbench]:
    """A store that knows one bug: Abs is taken for Neg."""
    tmp_path = tmp_path_factory.mktemp("watch")
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Abs", ["x"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", kind, [4])],
        [onnx.helper.make_tensor_value_info("y", kind, [4])],
    )
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "abs.onnx",
    )
    with Workbench(tmp_path / "store", plugins=[str(plugin)]) as bench:
        assert bench.check(str(tmp_path / "abs.onnx"), targets=[NAME]).bugs
        yield bench


def unmeasured(bug: Bug, target: Target) -> tuple[ReplayAnswer, str]:
    raise AssertionError(f"{bug.id} is not about cost")


def standings(result: WatchResult) -> list[Standing]:
    """Of the bug that is known at first."""
    return [one.standing for one in result.bugs if one.bug.fingerprint.kind != "crash"]


def round_of(bench: Workbench) -> WatchResult:
    return bench.watch([NAME], installed=True, seconds=0)


def test_fixed_and_back_are_told_from_one_round_to_the_next(bench: Workbench, plugin: Path, tmp_path: Path) -> None:
    mended = plugin.with_name("mended")
    assert standings(round_of(bench)) == [Standing.STILL_FAILS]
    mended.touch()
    fixed = round_of(bench)
    assert standings(fixed) == [Standing.FIXED]
    assert standings(round_of(bench)) == [Standing.STILL_FIXED]
    mended.unlink()
    back = round_of(bench)
    assert standings(back) == [Standing.BACK]
    assert standings(round_of(bench)) == [Standing.STILL_FAILS]
    known = back.those(Standing.BACK)[0].bug
    assert bench.store.bug(known.id).status is Status.NEW  # another release says nothing of where the bug stands

    for suffix in ("md", "json", "xml"):
        write(back, tmp_path / "store", tmp_path / f"back.{suffix}")
        write(fixed, tmp_path / "store", tmp_path / f"fixed.{suffix}")
    text = (tmp_path / "back.md").read_text()
    assert "## Back (1)" in text and f"--target {NAME}`" in text and "1 back" in headline(back)
    assert json.loads((tmp_path / "fixed.json").read_text())["fixed"][0]["bug"] == known.id
    assert ET.parse(tmp_path / "back.xml").getroot().get("failures") == "1"
    root = ET.parse(tmp_path / "fixed.xml").getroot()
    assert root.get("tests") and root.get("failures") == "0"


def test_what_the_hunt_meets_is_not_fixed_and_what_it_finds_is_new(bench: Workbench, plugin: Path) -> None:
    mended = plugin.with_name("mended")
    mended.touch()
    store = bench.store
    (known,) = (bug for bug in bench.bugs() if bug.fingerprint.kind != "crash")
    case = store.load_case(store.bug(known.id).findings[0].case_id)
    found = store.add_finding(
        Fingerprint(NAME, "RUN", "crash", "sign of float"), case, Target(NAME), summary="it crashes",
        status=Status.NEW, verdict={}, execution={},
    )  # fmt: skip
    hunt = HuntLog(store).begin({"seed": 0}, {})
    seen = HuntResult(hunt, {known.id: store.bug(known.id), found.id: found}, [found.id])
    every = replay_all(store, bench._warm(), {NAME: Target(NAME)}, unmeasured, lambda line: None)
    replayed = [one for one in every if one.bug.id == known.id]
    mended.unlink()
    assert [one.fails for one in replayed] == [False]
    told = {one.bug.id: one.standing for one in settle(store, replayed, seen)}
    assert told == {found.id: Standing.NEW, known.id: Standing.STILL_FAILS}
    flaky = [replace(one, fails=None, reason="it timed out") for one in replayed]
    (met,) = (one for one in settle(store, flaky, seen) if one.bug.id == known.id)
    assert "is unclear (it timed out), and the hunt met it" in met.reason
    assert [one.standing for one in settle(store, flaky, None)] == [Standing.UNCLEAR]


def test_the_newest_release_gets_an_environment_unless_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    asked: list[tuple[str, ...]] = []
    made: list[str] = []

    def index(package: str, *flags: str) -> list[str]:
        asked.append((package, *flags))
        return ["99.0.0rc1", onnxruntime.__version__] if flags else [f"{onnxruntime.__version__}+cpu", "1.0.0"]

    def add(requirement: str, report: object) -> object:
        made.append(requirement)
        return type("Made", (), {"version": requirement.partition("==")[2]})

    monkeypatch.setattr(releases, "_index", index)
    monkeypatch.setattr(watching, "add_environment", add)
    said: list[str] = []
    stable = watched_targets(["onnxruntime"], WatchSettings(pre=False), said.append)
    assert stable == {"onnxruntime": Target("onnxruntime")}
    assert not made
    newest = watched_targets(["onnxruntime"], WatchSettings(), said.append)
    assert newest == {"onnxruntime": Target("onnxruntime", "99.0.0rc1")} and made == ["onnxruntime==99.0.0rc1"]
    assert asked == [("onnxruntime",), ("onnxruntime", "--pre")] and said


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["onnxruntme"], "There is no compiler 'onnxruntme'"),
        (["onnxruntime@1.2"], "name the compiler alone"),
        (["onnxruntime", "--stable", "--installed"], "Give one of"),
        (["onnxruntime", "--budget", "1m", "--no-hunt"], "Give one of"),
        (["onnxruntime", "tvm", "--release", "1"], "of one compiler"),
        (["onnxruntime", "--out", "x.html"], "must end in .md, .json, .xml"),
    ):
        assert run(["watch", *words, "--store", str(tmp_path / "s")]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_night_replays_hunts_and_tells(tmp_path: Path) -> None:
    wrong = str(Path(__file__).parent / "wrong_abs.py")
    head = [sys.executable, "-m", "driftline", "watch", "wrong-abs", "--installed", "--plugin", wrong]
    words = [*head, "--store", str(tmp_path / "s"), "--seed", "3", "--json"]
    first = subprocess.run(
        [*words, "--programs", "30", "--out", str(tmp_path / "w.xml")], capture_output=True, text=True, timeout=500
    )
    assert first.returncode == 1, first.stderr
    told = json.loads(first.stdout)
    assert told["new"] and not told["still_fails"]
    assert ET.parse(tmp_path / "w.xml").getroot().get("failures") == str(len(told["new"]))
    second = subprocess.run([*words, "--no-hunt"], capture_output=True, text=True, timeout=500)
    again = json.loads(second.stdout)
    assert second.returncode == 0, second.stderr
    assert {one["bug"] for one in again["still_fails"]} == {one["bug"] for one in told["new"]}
    with Store.open(tmp_path / "s") as store:
        assert len(store.bugs()) == len(told["new"])


@pytest.mark.slow
def test_three_nights_with_two_releases_of_a_real_compiler(tmp_path: Path) -> None:
    """New in the old release, fixed in the one that is installed here, back when the old one returns."""
    import onnxruntime

    others = [e for e in list_environments() if e.package == "onnxruntime" and e.version != onnxruntime.__version__]
    if not others:
        pytest.skip("there is one release of ONNX Runtime; make another: driftline env add onnxruntime==1.16.3")
    old = min(others, key=lambda environment: release_key(environment.version)).version
    head = [sys.executable, "-m", "driftline", "watch", "onnxruntime", "--store", str(tmp_path / "s")]

    def night(*words: str) -> tuple[int, dict[str, set[str]], ET.Element]:
        done = subprocess.run(
            [*head, *words, "--json", "--out", str(tmp_path / "w.xml"), "--out", str(tmp_path / "w.md")],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode in (0, 1), done.stderr
        told = json.loads(done.stdout)
        bugs = {key: {one["bug"] for one in value} for key, value in told.items() if isinstance(value, list)}
        assert {one["target"].partition("@")[0] for one in told["new"] + told["fixed"]} <= {"onnxruntime"}
        return done.returncode, bugs, ET.parse(tmp_path / "w.xml").getroot()

    code, first, junit = night("--release", old, "--programs", "300", "--seed", "1")
    assert code == 1 and first["new"]
    names = {case.get("name") for case in junit.iter("testcase")}
    assert junit.get("failures") == str(len(first["new"])) and len(names) == len(first["new"])

    code, second, junit = night("--installed", "--no-hunt")
    assert code == 0 and second["fixed"] and second["fixed"] <= first["new"]
    assert {case.get("name") for case in junit.iter("testcase")} == names, "a case has one name on every night"
    assert f"## Fixed ({len(second['fixed'])})" in (tmp_path / "w.md").read_text()

    code, third, junit = night("--release", old, "--no-hunt")
    assert code == 1 and third["back"] == second["fixed"]
    assert junit.get("failures") == str(len(third["back"]))


def test_a_slow_bug_is_measured_again(bench: Workbench, tmp_path: Path) -> None:
    case = bench.store.load_case(bench.store.bug(bench.bugs()[0].id).findings[0].case_id)
    answers = {"abs of float": (ReplayAnswer.STILL_FAILS, "3 times as long"), "exp of float": (ReplayAnswer.PASSES, "")}
    with Store.create(tmp_path / "store") as store:
        for detail in answers:
            store.add_finding(
                Fingerprint(NAME, "RUN", "slow", detail), case, Target(NAME), summary="slow", status=Status.NEW,
                verdict={}, execution={},
            )  # fmt: skip
        replayed = list(
            replay_all(
                store,
                bench._warm(),
                {NAME: Target(NAME)},
                lambda bug, target: answers[bug.fingerprint.detail],
                lambda line: None,
            )
        )
        told = {one.bug.fingerprint.detail: one.standing for one in settle(store, replayed, None)}
    assert told == {"abs of float": Standing.STILL_FAILS, "exp of float": Standing.FIXED}
