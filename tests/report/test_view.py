"""The view says what the store holds, in order, and bears what is missing."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import numpy as np
from filled_store import add_bug, pair

from driftline.core.evidence import NOTHING, Element, Evidence
from driftline.core.program import Program
from driftline.core.verdict import Kind
from driftline.report.gather import gather
from driftline.report.mismatch import describe_tensor, from_arrays, from_evidence, is_ordinary
from driftline.report.view import FIXED, FLAKY, KNOWN, OPEN, ReportView
from driftline.report.words import verdict_line
from driftline.store import Store
from driftline.store.audits import AuditLog
from driftline.store.checks import CheckLog
from driftline.store.schedules import ScheduleLog

ANY = Element((0,), 0.0, 1.0)


def test_the_worst_come_first_and_the_rest_stands_apart(view: ReportView) -> None:
    assert [bug.group for bug in view.bugs] == [OPEN] * 10 + [KNOWN, FLAKY, FIXED]
    ranks = [bug.severity for bug in view.group(OPEN)]
    assert ranks == sorted(ranks)
    assert view.bugs[0].severity_name == "Wrong results on ordinary values"
    assert next(bug.kind for bug in view.bugs if bug.severity) == "crash"


def test_the_verdict_says_what_was_tested_and_found(view: ReportView) -> None:
    assert view.verdict.startswith("9,600 programs on 4 targets in 65 min showed 10 distinct bugs in 3 compilers:")
    assert "4 in onnxruntime" in view.verdict
    assert "(1 known already, 1 flaky, counted apart)" in view.verdict


def test_audits_beside_a_hunt_are_said_to_have_happened(view: ReportView) -> None:
    """Their bugs are among those that are counted: the programs of the hunt alone did not show them."""
    told = verdict_line(view.bugs, view.statistics, others=["2 audits"])
    assert told.startswith("9,600 programs on 4 targets in 65 min and 2 audits showed 10 distinct bugs")


def test_a_store_without_hunts_claims_nothing_about_passes(bare_store: Path) -> None:
    view = gather(bare_store)
    assert view.statistics is None
    assert view.verdict.startswith("Checks and audits found 10 distinct bugs")
    assert view.environment.versions["tvm"] == "0.27.0"


def test_an_empty_store_is_no_trouble(tmp_path: Path) -> None:
    Store.create(tmp_path).close()
    assert gather(tmp_path).verdict == "No hunt, audit or check of results is recorded in this store."


def test_an_audit_without_a_bug_is_said_to_have_happened(tmp_path: Path) -> None:
    with Store.create(tmp_path) as store:
        AuditLog(store).begin({})
        ScheduleLog(store).begin({})
        ScheduleLog(store).begin({})
    assert gather(tmp_path).verdict == "1 audit and 2 hunts among schedules: no new bug."


def test_programs_of_single_checks_are_counted(tmp_path: Path) -> None:
    program = Program("onnx", "onnx", "0" * 64, tmp_path / "net.onnx", "net.onnx")
    with Store.create(tmp_path) as store:
        CheckLog(store).keep(program, [("onnxruntime", "1.31.1", "pass"), ("tvm", "0.27.0", "pass")])
    assert gather(tmp_path).verdict == "1 program checked on 2 targets: no new bug."


def test_statistics_add_up_and_tell_what_was_not_tested(view: ReportView) -> None:
    statistics = view.statistics
    assert statistics
    assert sum(lane.programs for lane in statistics.lanes) == statistics.programs == 9600
    for lane in statistics.lanes:
        assert sum(lane.verdicts.values()) == lane.programs
    assert statistics.generators == {"graph": 7200, "mutate": 2400}
    assert statistics.coverage["exp"]["float32"]["fail"] > 0
    told = " ".join(statistics.untested)
    left = statistics.suspects["unexamined"] + statistics.suspects["waiting"]
    assert sum(map(int, re.findall(r"(\d+) suspects? seemed to fail and (?:was|were) not examined", told))) == left
    assert "tvm: only 648 of 2,400 programs were judged" in told
    assert "1 operator never came through a compiler: unfold" in told
    assert "matmul" not in statistics.never_drawn
    assert statistics.never_drawn


def test_sightings_count_suspects_not_only_cases(view: ReportView) -> None:
    assert max(bug.sightings for bug in view.bugs) > 1


def test_the_matrix_shows_compilers_without_bugs_and_leaves_out_flaky_ones(view: ReportView) -> None:
    assert view.matrix["openvino"] == {}
    assert view.matrix["inductor"] == {"wrong-value": 2, "wrong-dtype": 1, "wrong-nan-inf": 1}


def test_missing_keys_and_lost_objects_leave_gaps(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        bug = add_bug(store, Kind.WRONG_VALUE)
        case_object = store.load_case(bug.findings[0].case_id).program.path
    with sqlite3.connect(tmp_path / "s" / "store.db") as database:
        database.execute("UPDATE findings SET verdict = '{}', execution = '{}'")
    found = gather(tmp_path / "s").bugs[0]
    assert (found.mismatch, found.versions, found.log) == (None, (), "")
    case_object.write_text("not a bundle")
    assert gather(tmp_path / "s").bugs[0].script == "", "an object that does not have its digest is not used"
    case_object.unlink()
    found = gather(tmp_path / "s").bugs[0]
    assert (found.script, found.inputs) == ("", ())
    assert "lost" in found.program and found.title


def test_the_table_begins_with_the_element_of_the_title_and_shows_what_was_judged() -> None:
    right, got = np.array([7, 1160290625, 0, 4], np.int32), np.array([6, 1160290688, 9, 4], np.int32)
    worst = (Element((1,), 1160290625, 1160290688), Element((0,), 7, 6))
    found = from_arrays({"y": right}, {"y": got}, Evidence(output="y", elements=4, wrong=2, worst=worst))
    assert found and [(one.index, one.got) for one in found.places] == [("[0]", "6"), ("[1]", "1160290688")]


def test_lost_artifacts_fall_back_to_the_evidence(tmp_path: Path) -> None:
    gone = {"expected": "0" * 64, "got": "1" * 64}
    with Store.create(tmp_path / "s") as store:
        add_bug(store, Kind.WRONG_VALUE, artifacts=gone, evidence=Evidence(worst=(Element((1,), 1.0, 2.0),)))
    mismatch = gather(tmp_path / "s").bugs[0].mismatch
    assert mismatch and mismatch.places[0].got == "2.0"


def test_mismatch_finds_the_worst_places() -> None:
    right = np.ones((3, 4), np.float32)
    wrong = right.copy()
    wrong[1, 2] += 0.5
    wrong[2, 3] = np.nan
    found = from_arrays({"a": right, "y": right}, {"a": right, "y": wrong}, NOTHING)
    assert found and found.output == "y"
    assert [place.index for place in found.places] == ["[2, 3]", "[1, 2]"]
    assert (found.wrong, found.size) == (2, 12)
    assert found.map and (found.map.rows, found.map.columns) == (3, 4)
    assert found.map.cells[11] is None
    assert found.map.cells[6] and found.map.cells[6] > 1e6
    assert found.map.cells[0] == 0


def test_a_large_output_becomes_a_small_map_that_keeps_the_worst() -> None:
    right = np.zeros((300, 500), np.float32)
    wrong = right.copy()
    wrong[277, 434] = 1.0
    found = from_arrays({"y": right}, {"y": wrong}, Evidence(sigma=1e-7))
    assert found and found.map
    assert len(found.map.cells) <= 800
    assert sum(bool(cell) for cell in found.map.cells) == 1


def test_large_elements_are_granted_rounding_in_proportion() -> None:
    """What the verdict calls wrong comes first; what is legal elsewhere is not listed, though its error is larger."""
    right = np.array([1e-3, 2.0, 3.0])
    wrong = right + np.array([1e-8, 3e-7, 0.0])
    found = from_arrays({"y": right}, {"y": wrong}, Evidence(sigma=1e-10, worst=(ANY,)))
    assert found and [place.index for place in found.places] == ["[0]"]
    assert found.estimated and found.wrong == 1
    tiny = np.float32([1e-38, 1.0])
    lost = from_arrays({"y": tiny}, {"y": np.float32([0.0, 1.0])}, Evidence(sigma=1e-45, worst=(ANY,)))
    assert lost and lost.places[0].off == "1e+07 \N{MULTIPLICATION SIGN}"
    right = np.zeros(3)
    exact = from_arrays(
        {"y": right}, {"y": right + np.array([0.5, 0, 0])}, Evidence(sigma=1e-320, worst=(Element((0,), 0.0, 0.5),))
    )
    assert exact and exact.unit.startswith("rounding of the largest element")


def test_one_unit_for_a_finding_with_and_without_its_arrays() -> None:
    """What was kept of the arrays must not change how far off an element is said to be."""
    right, wrong = np.array([2.0, 4.0]), np.array([2.5, 4.0])
    for rounding in ({"sigma": 0.01}, {"allowed": 0.08}):  # eight times the rounding is the limit in both
        evidence = Evidence(output="y", worst=(Element((0,), 2.0, 2.5),), error=0.5, **rounding)
        short, full = from_evidence(evidence), from_arrays({"y": right}, {"y": wrong}, evidence)
        assert short and full
        assert short.places[0].off == full.places[0].off == "50 \N{MULTIPLICATION SIGN}"
        assert short.unit.startswith("legal rounding (0.01") and full.unit.startswith("legal rounding (0.01")
        assert full.wrong == 1
    evidence = Evidence(
        output="y", worst=(Element((0,), 2.1, 2.5),), error=0.4, sigma=0.01
    )  # float64 gives 2.1, not 2.0
    found = from_arrays({"y": right}, {"y": wrong}, evidence)
    assert found and found.places[0].off == "40 \N{MULTIPLICATION SIGN}"
    plain = from_arrays({"y": np.float32([1.0])}, {"y": np.float32([1.5])}, NOTHING)
    assert plain and "(5.96e-08)" in plain.unit, "the largest error of one rounding is half a spacing"


def test_integers_are_compared_exactly() -> None:
    right, wrong = pair((3, 5), "ints")
    found = from_arrays(right, wrong, NOTHING)
    assert found and found.wrong == int((right["output"] != wrong["output"]).sum())
    assert found.places[0].off == "256"


def test_ordinary_values() -> None:
    assert is_ordinary({"x": np.float32([1.5, -3, 0])})
    assert not is_ordinary({"x": np.float32([1, np.nan])})
    assert not is_ordinary({"x": np.float64([1e300])})
    assert not is_ordinary({"x": np.array([-(2**31)], np.int32)})


def test_tensors_in_one_line() -> None:
    assert describe_tensor("x", np.float32([[1.5, np.nan]])).values == "[[1.5, nan]]"
    assert describe_tensor("x", np.zeros((0, 3))).values == "no elements"
    many = describe_tensor("x", np.arange(100, dtype=np.float32)).values
    assert many == "0 to 99; begins 0.0, 1.0, 2.0, 3.0, 4.0, …"
