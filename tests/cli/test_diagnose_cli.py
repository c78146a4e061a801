"""`localize`, `ablate` and `diagnose` as a user types them, and `--diagnose` of the commands that find bugs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from typed import typed

RELU_CLIP = """
import numpy as np
from onnx import parser

MODEL = '''
<ir_version: 8, opset_import: ["": 18]>
squash (double[4] x) => (double[4] y) <double low = {-0.5}, double high = {2.0}> {
    scaled = Mul(x, high)
    positive = Relu(scaled)
    clipped = Clip(positive, low, high)
    y = Sub(clipped, low)
}
'''


def program():
    return parser.parse_model(MODEL), {"x": np.array([-4.0, 0.25, 1.5, 9.0])}
"""


def answer(*arguments: str) -> dict[str, Any]:
    done = typed(*arguments, "--json")
    assert done.returncode == 1, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store with one bug, found and explained by one command."""
    folder = tmp_path_factory.mktemp("diagnose")
    (folder / "model.py").write_text(RELU_CLIP)
    store = folder / "store"
    found = answer(
        "check", f"{folder / 'model.py'}:program", "--targets", "onnxruntime", "--diagnose", "--store", str(store)
    )
    return store, found


def test_check_explains_what_it_finds(checked: tuple[Path, dict[str, Any]]) -> None:
    _, found = checked
    (diagnosis,) = found["diagnoses"]
    assert diagnosis["bug"] == found["bugs"][0]["id"]
    assert diagnosis["localization"]["suspects"][0]["title"] == "Relu + Clip"
    assert diagnosis["reduction"]["after"]["operators"] == 2
    assert diagnosis["ablation"]["cures"][0]["title"] == "FuseReluClip"
    assert diagnosis["on_original"][0]["answer"] == "pass"
    assert "It passes without FuseReluClip." in diagnosis["summary"]
    assert diagnosis["seconds"] < 180


def test_every_command_of_an_explanation_says_what_was_claimed(checked: tuple[Path, dict[str, Any]]) -> None:
    _, found = checked
    (diagnosis,) = found["diagnoses"]
    suspect = typed(*shlex.split(diagnosis["localization"]["suspects"][0]["command"])[1:])
    assert suspect.returncode == 1, suspect.stderr
    assert "fail" in suspect.stdout
    for cure in (*diagnosis["ablation"]["cures"], *diagnosis["on_original"]):
        done = typed(*shlex.split(cure["command"])[1:])
        assert done.returncode == 0, done.stdout + done.stderr


def test_steps_by_themselves(checked: tuple[Path, dict[str, Any]]) -> None:
    store, found = checked
    bug = found["bugs"][0]["id"]
    localized = answer("localize", bug, "--store", str(store))
    assert [rung["answer"] for rung in localized["ladder"]] == ["pass", "same"]
    assert localized["first_wrong"] == "onnxruntime:opt=basic"
    assert localized["operators"] == 4
    shown = typed("localize", bug, "--store", str(store))
    assert "Suspect 1: Relu + Clip, operators 2 and 3 of 4" in shown.stdout
    assert "With every value as an output the whole program passes." in shown.stdout
    shown = typed("ablate", bug, "--store", str(store))
    assert "It passes without FuseReluClip." in shown.stdout
    assert "No difference: opt=basic, opt=extended" in shown.stdout


def test_diagnose_tells_a_story(checked: tuple[Path, dict[str, Any]]) -> None:
    store, found = checked
    done = typed("diagnose", found["bugs"][0]["id"], "--store", str(store), "--budget", "20m")
    assert done.returncode == 1, done.stderr
    for words in ("onnxruntime:opt=basic is wrong; onnxruntime:opt=off is right.", "Relu + Clip", "Again:"):
        assert words in done.stdout
    assert "\nx = 0.0  # float64\n" in done.stdout, "a reduced ONNX program says nothing without its inputs"
    again = done.stdout.partition("Again:\n")[2].splitlines()
    assert [line.partition("  # ")[2] for line in again] == [
        "the suspect alone, Relu + Clip: fails",
        "the reduced program with this cure: passes",
        "the reduced program with this cure: passes",
        "the program that was found, with this cure: passes",
    ]


def test_a_bug_is_shown_with_what_explains_it(checked: tuple[Path, dict[str, Any]]) -> None:
    store, found = checked
    shown = typed("bugs", "show", found["bugs"][0]["id"], "--store", str(store)).stdout
    assert "positive = Relu (scaled)" in shown, "the model's text, not the place of its file"
    explained = shown.partition("explained so far")[2]
    for words in (
        "y = Clip (v0, c0)",
        "x = 0.0  # float64",
        "suspect: Relu + Clip, operators 2 and 3 of 4; without it the program passes",
        "cure: onnxruntime:disable=FuseReluClip",
    ):
        assert words in explained
    assert "driftline diagnose" not in explained, "that was done"


def test_the_cause_of_what_was_reduced_is_named(checked: tuple[Path, dict[str, Any]]) -> None:
    store, found = checked
    bug = found["bugs"][0]["id"]
    for shown in (
        typed("bugs", "list", "--store", str(store)),
        typed("bugs", "show", bug, "--store", str(store)),
    ):
        assert "cause: Relu before Clip in another type than float32" in " ".join(shown.stdout.split())
        assert "https://github.com/microsoft/onnxruntime/issues/11836" in shown.stdout


def test_what_is_fixed_or_unknown_is_said(checked: tuple[Path, dict[str, Any]]) -> None:
    store, found = checked
    bug = found["bugs"][0]["id"]
    gone = typed("ablate", bug, "--target", "onnxruntime:opt=off", "--store", str(store))
    assert gone.returncode == 0
    assert "does not fail in the same way" in gone.stderr
    for command in ("localize", "ablate", "diagnose"):
        unknown = typed(command, "no-such-bug", "--store", str(store))
        assert unknown.returncode == 2
        assert "There is no bug 'no-such-bug'" in unknown.stderr
        assert "Traceback" not in unknown.stderr
    budget = typed("diagnose", bug, "--budget", "soon", "--store", str(store))
    assert budget.returncode == 2
    assert "write a time with its unit" in budget.stderr
