"""`driftline reduce` as a user types it: programs, bugs, cases; killed and resumed; what is kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.checking.checker import Checker
from driftline.cli import run
from driftline.core.case import CheckOptions
from driftline.core.target import Target
from driftline.report.titles import smallest_of
from driftline.store import Store
from driftline.store.reductions import Answers, Reductions

ROOT = Path(__file__).resolve().parents[2]
CLIP = f"{ROOT}/examples/bugs/onnxruntime_relu_clip_float64.py:program"


def command(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(line.split())
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_program_then_its_bug_then_its_case(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = store_folder.parent / "small.onnx"
    code, said, progress = command(f"reduce {CLIP} --target onnxruntime --store {store_folder} --out {out}", capsys)
    assert code == 1
    assert "Relu" in said and "Clip" in said and "1-minimal" in said
    assert "asked" in progress and out.is_file()
    with Store.open(store_folder) as store:
        (bug,) = store.bugs()
        kept = Reductions(store).of(bug.id)
        case_id = store.bug(bug.id).findings[0].case_id
        smallest = smallest_of(store.bug(bug.id).findings[0])
    assert smallest and kept and smallest.case_id == kept["case"]
    assert smallest.facts.operators == ("Relu", "Clip")
    assert kept and kept["after"]["operators"] == 2 and kept["steps"]
    for subject in (bug.id, case_id):
        code, said, _ = command(f"reduce {subject} --store {store_folder} --json", capsys)
        found = json.loads(said)
        assert (code, found["bug"], found["program"]["operators"]) == (1, bug.id, ["Relu", "Clip"])
        assert found["remembered"] > found["queries"]  # everything was asked the first time


def test_mistakes_are_one_sentence(store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line, expected in (
        (f"reduce nothing --store {store_folder}", "There is no store"),
        (f"reduce {CLIP} --target onnxruntime:opt=off --store {store_folder}", "does not fail"),
        (f"reduce {CLIP} --target onnxruntime --budget soon --store {store_folder}", "--budget soon"),
        (f"reduce model.onnx --store {store_folder}", "there is no such file"),
    ):
        code, _, said = command(line, capsys)
        assert code == 2 and expected in said and "Traceback" not in said


def test_the_suffix_of_the_file_must_fit_what_is_written(
    store_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_folder.parent
    line = f"reduce {CLIP} --target onnxruntime --store {store_folder} --out {folder}"
    code, _, said = command(f"{line}/missing/x.onnx", capsys)
    assert code == 2 and "there is no folder" in said and "Traceback" not in said
    code, _, said = command(f"{line}/small.py", capsys)
    assert code == 2 and "ends in .onnx, such as" in said and "small.onnx" in said
    assert "kept" not in said, "refused before the work"

    # Where the form is known only in the end, the work is not lost.
    monkeypatch.setattr(sys.modules["driftline.cli.reduce"], "_forms_to_come", lambda program: ("onnx", "source"))
    code, _, said = command(f"{line}/small.py", capsys)
    assert code == 2 and "ends in .onnx" in said and not (folder / "small.py").exists()
    with Store.open(store_folder) as store:
        (bug,) = store.bugs()
        assert Reductions(store).of(bug.id)
    assert f"The reduction itself is done and kept: driftline bugs show {bug.id}." in said


def test_a_killed_reduction_goes_on_without_asking_again(
    store_folder: Path, checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.create(store_folder) as store:
        failing = find_failing(CLIP, store, checker, target=Target.parse("onnxruntime"), options=CheckOptions())
        written = Answers.__setitem__
        count = 0

        def until_killed(self: Answers, key: str, value: dict[str, Any]) -> None:
            nonlocal count
            written(self, key, value)
            count += 1
            if count == 6:
                raise KeyboardInterrupt

        monkeypatch.setattr(Answers, "__setitem__", until_killed)
        with pytest.raises(KeyboardInterrupt):
            reduce_failing(checker, store, failing, budget=900)
        monkeypatch.setattr(Answers, "__setitem__", written)
        first = len(Answers(store))
        resumed = reduce_failing(checker, store, failing, budget=900).reduction
        assert resumed.after.operators == 2
        assert resumed.remembered >= first
        whole = len(Answers(store))
        again = reduce_failing(checker, store, failing, budget=900).reduction
        assert len(Answers(store)) == whole
        assert again.case.program.digest == resumed.case.program.digest


def test_a_budget_that_is_too_small_says_so(
    store_folder: Path, checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time stands still until five questions are asked, and is then over."""
    from driftline.diagnose.reduce.search import Search

    monkeypatch.setattr(Search, "_over", lambda search: search.queries >= 5)
    with Store.create(store_folder) as store:
        failing = find_failing(CLIP, store, checker, target=Target.parse("onnxruntime"), options=CheckOptions())
        found = reduce_failing(checker, store, failing, budget=900).reduction
    assert found.ended == "budget ended"
    assert found.smallest is not None and found.after < found.before


def test_help_names_the_command() -> None:
    from driftline.cli import cli

    assert "reduce" in CliRunner().invoke(cli, ["--help"]).output
