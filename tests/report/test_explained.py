"""What a bug is shown with: as what it is known, what explains it so far, and what is still to do."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filled_store import add_bug

from driftline.causes import Cause, Library, Witness
from driftline.cli import run
from driftline.core.evidence import Element, Evidence, Fault, InputClass, Region
from driftline.core.plugins import one_command
from driftline.core.verdict import Kind
from driftline.report import markdown, words
from driftline.report.bug_list import show_bugs
from driftline.report.explained import explained_so_far
from driftline.report.gather import gather
from driftline.report.terminal import show_bug
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses
from driftline.store.reductions import Reductions

REDUCTION: dict[str, Any] = {
    "case": "0123456789abcdef",
    "ended": "1-minimal",
    "program": {"form": "onnx", "text": "reduced (double x) => (double y) {\n   y = Abs (x)\n}\n"},
    "inputs": [
        {"name": "x", "dtype": "float64", "shape": [], "values": -1.5},
        {"name": "w", "dtype": "float32", "shape": [500], "values": None},
    ],
    "after": {"operators": 1},
    "nearest": None,
    "steps": [],
}
LOCALIZATION: dict[str, Any] = {
    "operators": 3,
    "first_wrong": "inductor",
    "note": "",
    "suspects": [{"title": "Abs", "operators": [{"place": 0}], "rest": "pass"}],
}


def test_nothing_is_explained_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.create(tmp_path / "s") as store, one_command():  # without the plugins of other tests
        bug = add_bug(store, Kind.WRONG_VALUE)
        show_bug(bug, store)
    shown = capsys.readouterr().out
    assert "explained so far" not in shown
    assert f"driftline diagnose {bug.id} --store {tmp_path / 's'}  # where it lies" in shown
    assert f"driftline bisect {bug.id}" in shown


def test_evidence_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = Evidence(
        sample=0, output="y", dtype="float32", elements=3, wrong=2, wrong_nonfinite=1, z=41.27, certain=True,
        worst=(Element((0, 1), math.nan, 0.0, math.nan), Element((0, 2), 1.0, 2.0, noise=1e-7)),
        faults=(Fault.NAN_LOST,), regions=(Region.SCATTERED,), needs=(InputClass.NAN,), accept="--accept tvm=fast-exp",
    )  # fmt: skip
    with Store.create(tmp_path / "s") as store:
        show_bug(add_bug(store, Kind.WRONG_VALUE, evidence=evidence), store)
    shown = capsys.readouterr().out
    for line in (
        "  2 of 3 elements of y (float32) wrong, 1 in being NaN or infinite; scattered",
        "  at [0, 1]: expected nan, got 0.0, the reference itself gave nan",
        "  at [0, 2]: expected 1.0, got 2.0, rounding explains 1e-07",
        "  41.3 times as far off as legal rounding explains; no order of operations rounds so far",
        "  what is wrong: NaN is lost",
        "  passes when the inputs have no NaN",
        "  accepted with --accept tvm=fast-exp",
    ):
        assert line in shown.splitlines(), shown


def test_what_was_found_is_shown_and_the_rest_is_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.create(tmp_path / "s") as store:
        bug = add_bug(store, Kind.WRONG_VALUE)
        Reductions(store).save(bug.id, REDUCTION)
        Diagnoses(store).save(bug.id, "localize", LOCALIZATION)
        show_bug(bug, store)
        left = [step for step, _ in explained_so_far(store, bug.id).to_do()]
    shown = capsys.readouterr().out
    assert "smallest program that fails: 1 operator, no single step makes it smaller, case 0123456789abcdef" in shown
    assert "y = Abs (x)" in shown
    assert "x = -1.5  # float64" in shown
    assert "w = [500] (in the case)  # float32" in shown
    assert "suspect: Abs, operator 1 of 3; without it the program passes" in shown
    assert left == ["ablate", "bisect"]


def test_json_has_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "s"
    with Store.create(place) as store:
        bug = add_bug(store, Kind.WRONG_VALUE)
        Reductions(store).save(bug.id, REDUCTION)
        Diagnoses(store).save(bug.id, "localize", LOCALIZATION)
        Diagnoses(store).save(bug.id, "diagnose", {"notes": {"ablate": "no time was left for it"}})
    assert run(["bugs", "show", bug.id, "--json", "--store", str(place)]) == 0
    explanation = json.loads(capsys.readouterr().out)["bug"]["explanation"]
    assert explanation == {
        "sentences": [
            "suspect: Abs, operator 1 of 3; without it the program passes",
            "ablate came to nothing: no time was left for it",
        ],
        "ladder": None,
        "localization": LOCALIZATION,
        "reduction": REDUCTION,
        "ablation": None,
        "bisection": None,
        "notes": {"ablate": "no time was left for it"},
        "to_do": [
            {
                "command": f"driftline ablate {bug.id} --store {place}",
                "tells": "which rule, pass or option it needs",
            },
            {"command": f"driftline bisect {bug.id} --store {place}", "tells": "which releases show it"},
        ],
    }


def test_reports_have_it_too(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        bug = add_bug(store, Kind.WRONG_VALUE)
        Reductions(store).save(bug.id, REDUCTION)
        Diagnoses(store).save(bug.id, "localize", LOCALIZATION)
    text = markdown.render(gather(tmp_path / "s"))
    assert "```\nreduced (double x)" in text, "the text of an ONNX model is not Python"
    assert "x = -1.5  # float64\n" in text
    assert "- Suspect: Abs, operator 1 of 3; without it the program passes." in text


def test_a_bug_says_which_cause_explains_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cause = Cause("inductor/slow", "Exp is slow", "inductor", ("wrong-value",), Witness("", ""))
    cause = replace(cause, operators=(frozenset({"exp"}),), reported="https://example.org/1", debatable="it is right")
    library = Library((cause,))
    with Store.create(tmp_path / "s") as store:
        explained = add_bug(store, Kind.WRONG_VALUE, sighting={"operators": ["exp"]})
        other = add_bug(store, Kind.WRONG_VALUE, op="sin", sighting={"operators": ["sin"]})
        show_bugs([other, explained], store.path, library, total=2, like={})
        show_bug(explained, store, library)
    listed, _, shown = capsys.readouterr().out.partition("target inductor")
    told = "cause: Exp is slow (inductor/slow); reported: https://example.org/1; debatable: it is right"
    for part in (listed, shown):
        assert told in " ".join(part.split())
    lines = [line.split()[0] for line in listed.splitlines() if line.startswith(("inductor-", " "))]
    assert lines.index(other.id) < lines.index(explained.id) < lines.index("cause:"), "a cause is below its bug"


def test_colours_of_a_log_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store.create(tmp_path / "s") as store:
        bug = add_bug(store, Kind.CRASH, log="\x1b[1;31mdied\x1b[m of it\x1b[0K")
        show_bug(bug, store)
    assert "│ died of it " in capsys.readouterr().out
    assert gather(tmp_path / "s").bugs[0].log == "died of it"


def test_places_are_counted_from_one() -> None:
    assert words.places([{"place": 0}], 3) == "operator 1 of 3"
    assert words.places([{"place": 1}, {"place": 2}], 5) == "operators 2 and 3 of 5"
    assert words.places([{"place": 1}, {"place": 2}, {"place": 4}], 9) == "operators 2, 3 and 5 of 9"
