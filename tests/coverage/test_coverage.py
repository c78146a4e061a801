"""`driftline coverage`: what hunts, audits, checks and schedule hunts exercised, against what there is."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from driftline.backends import BACKENDS
from driftline.cli import run
from driftline.core.errors import DriftlineError
from driftline.coverage import commands, coverage_of
from driftline.coverage.levels import CellState, state_of
from driftline.coverage.page import coverage_page
from driftline.coverage.thresholds import parse_thresholds, too_little
from driftline.generate.table import OPERATORS
from driftline.store import Store
from driftline.store.audits import LISTED, REACHED, AuditLog, AuditMemory
from driftline.store.exercised import exercised
from driftline.store.hunts import HuntLog, Turn, TurnBody
from driftline.store.schedules import BatchBody, ScheduleLog

EXAMPLE = Path(__file__).parents[2] / "examples" / "models" / "onnx_mlp.py"


def hunted(
    store: Store, target: str, coverage: dict[str, dict[str, int]], keys: tuple[str, ...] = (), seconds: float = 60.0
) -> None:
    log = HuntLog(store)
    hunt = log.begin({"targets": [target], "seed": 0}, {"versions": {target: "1.2"}})
    log.add_turn(hunt, Turn(target, 0, TurnBody(120, seconds, coverage=coverage, keys=keys)), [])
    log.spend(hunt, seconds)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store.create(tmp_path / "s")
    counts = {
        "relu float32": {"pass": 3},
        "add float32": {"pass": 2, "fail": 1},
        "mul float32": {"fail": 2},
        "relu float64": {"rejected": 4},
        "add float64": {"inconclusive": 1},
        "mul float64": {"invalid": 1},
        "Abs float32": {"pass": 5},
    }
    hunted(made, "onnxruntime:opt=off", counts)
    hunted(made, "onnxruntime", {"relu float32": {"pass": 1}})
    return made


def pairs_of_onnx() -> int:
    return sum(len(operator.onnx.dtypes) for operator in OPERATORS.values() if operator.onnx)


@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({}, CellState.NEVER),
        ({"invalid": 3, "nothing": 1}, CellState.NEVER),
        ({"rejected": 2}, CellState.DECLINED),
        ({"rejected": 2, "inconclusive": 1}, CellState.UNJUDGED),
        ({"rejected": 2, "pass": 1}, CellState.PASSES),
        ({"fail": 1, "pass": 1}, CellState.MIXED),
        ({"fail": 1, "rejected": 1}, CellState.FAILS),
    ],
)
def test_the_state_of_a_cell(counts: dict[str, int], state: CellState) -> None:
    assert state_of(counts) is state


def test_operators_are_counted_over_all_hunts_and_targets_of_a_compiler(store: Store) -> None:
    (one,) = coverage_of(store).compilers
    assert (one.name, one.versions, one.programs) == ("onnxruntime", ("1.2",), 240)
    assert one.cells["relu"]["float32"] == {"pass": 4}
    construction, operator = one.level("construction"), one.level("operator")
    # Built or declined: all but `mul float64`, which was no valid program; `Abs` is of a suite, not of the table.
    assert (construction.covered, construction.total) == (5, pairs_of_onnx())
    assert "mul float64" in construction.missing and "relu float64" not in construction.missing
    # Compared: three; what is declined is not to be covered.
    assert (operator.covered, operator.total) == (3, pairs_of_onnx() - 1)
    assert "add float64" in operator.missing and "mul float32" not in operator.missing
    assert "Abs" in one.cells and "Abs" not in one.listed


def test_every_compiler_is_counted_in_the_language_that_is_written_for_it(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        hunted(store, "inductor", {"relu float32": {"pass": 1}})
        hunted(store, "xla", {"relu float32": {"pass": 1}})
        totals = {one.name: one.level("construction").total for one in coverage_of(store).compilers}
    assert totals == {
        "inductor": sum(len(operator.torch.dtypes) for operator in OPERATORS.values() if operator.torch),
        "xla": sum(len(operator.jnp.dtypes) for operator in OPERATORS.values() if operator.jnp),
    }


def test_commands_that_would_cover_what_is_missing(store: Store) -> None:
    (one,) = coverage_of(store).compilers
    # The last hunt is of this compiler alone, and knows what was tried: to go on is shorter than to begin anew.
    assert one.level("operator").command.startswith("driftline hunt --resume --budget ")
    assert "patterns audit --compilers onnxruntime" in one.level("pass").command
    assert "driftline check model:bert --targets onnxruntime" in one.level("model").command
    hunted(store, "tvm", {"relu float32": {"pass": 1}}, seconds=600.0)
    minutes = -(-600 // 120 * 2 * pairs_of_onnx() // 60)
    hunted(store, "openvino", {"relu float32": {"pass": 1}})
    told = {one.name: one.level("operator").command for one in coverage_of(store).compilers}
    assert told["tvm"].startswith(f"driftline hunt --targets tvm --budget {minutes}m")


def test_rules_that_an_audit_or_a_hunt_saw_at_work(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        hunted(store, "inductor", {"relu float32": {"pass": 1}}, keys=("rule b1", "wrong-value relu"))
        (one,) = coverage_of(store).compilers
        assert one.level("pass").percent == 0 and "1 fired in hunts" in one.level("pass").note
        memory = AuditMemory(store, AuditLog(store).begin({}))
        rules = {name: {"name": f"rule {name}", "unreachable": ""} for name in ("a1", "b1", "c1")}
        memory.keep(LISTED, "inductor", {**rules, "d1": {"name": "rule d1", "unreachable": "needs a GPU"}})
        memory.keep(LISTED, "inductor passes", {"p1": {"name": "a pass", "unreachable": ""}})
        memory.keep(REACHED, "inductor", {"a1": "fired", "c1": "matched"})
        (one,) = coverage_of(store).compilers
    level = one.level("pass")
    assert (level.covered, level.total, level.missing) == (2, 4, ("rule c1", "a pass"))
    assert level.note == "1 more cannot fire on this machine."


def test_schedule_primitives_count_as_passes_of_tvm(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        log = ScheduleLog(store)
        log.keep(log.begin({}), 0, BatchBody(primitives={"split": 3, "fuse": 1}), 1.0)
        (one,) = coverage_of(store).compilers
    assert one.name == "tvm" and one.level("pass").covered == 2
    assert "primitive reorder" in one.level("pass").missing


def test_a_check_counts_even_when_it_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "s")
    for _ in range(2):
        assert run(["check", f"{EXAMPLE}:float64", "--targets", "onnxruntime", "--store", place]) == 0
    capsys.readouterr()
    assert run(["coverage", "--store", place, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["compilers"]["onnxruntime"]
    passed = {"name": "onnx_mlp.py:float64", "state": "passes", "runs": 2, "fails": 0}
    assert told["models"][-1] == passed and told["versions"]
    assert told["levels"]["model"]["note"] == "1 other program was checked."


def test_models_of_the_corpus(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store, store.transaction() as database:
        for name, judgement in (("model:bert", "pass"), ("model:t5", "inconclusive"), ("model:swin", "rejected")):
            row = (name, "inductor", name, "source", "2", judgement)
            database.execute("INSERT INTO checks VALUES (?, ?, ?, ?, ?, ?, 1, 0, '')", row)
    with Store.open(tmp_path / "s") as store:
        level = coverage_of(store).compilers[0].level("model")
    assert level.covered == 1 and "model:t5" in level.missing and "model:swin" not in level.missing
    assert level.total == level.covered + len(level.missing)


def test_thresholds(store: Store) -> None:
    found = coverage_of(store)
    assert too_little(found, parse_thresholds(["0"])) == []
    low = too_little(found, parse_thresholds(["operator=90, onnxruntime:construction=0.1"]))
    assert [(one.compiler, one.level.name) for one in low] == [("onnxruntime", "operator")]
    assert {one.level.name for one in too_little(found, parse_thresholds(["100"]))} == {
        "construction", "pass", "operator", "model",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("many", "write a percentage"),
        ("operator=120", "write a percentage"),
        ("operator=", "write a percentage"),
        ("operater=5", "Did you mean 'operator'?"),
        ("tvm:operator=5", "has nothing of a compiler 'tvm'"),
    ],
)
def test_thresholds_that_are_none(store: Store, text: str, sentence: str) -> None:
    with pytest.raises(DriftlineError, match=r"^--fail-under") as caught:
        too_little(coverage_of(store), parse_thresholds([text]))
    assert sentence in str(caught.value)


def test_the_command_line(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--store", str(store.path)]
    assert run(["coverage", *place]) == 0
    shown = capsys.readouterr().out
    assert "some fail" in shown and "driftline hunt --resume" in shown
    assert run(["coverage", *place, "--fail-under", "operator=50"]) == 1
    assert "and 50 % were asked for" in capsys.readouterr().out
    page = tmp_path / "map.html"
    assert run(["coverage", *place, "--out", str(page), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["compilers"]["onnxruntime"]
    assert told["operators"]["add"]["float32"] == {"state": "some fail", "programs": {"pass": 2, "fail": 1}}
    assert told["suite_operators"] == ["Abs"]
    text = page.read_text()
    assert '<td class="f" title="mul float32: fails (2 fail)">' in text and "<script" not in text
    for arguments, code, sentence in (
        (["--out", "map.pdf"], 2, "ends with .html"),
        (["--compilers", "onnxrutime"], 2, "Did you mean 'onnxruntime'"),
        (["--compilers", "tvm"], 5, "Nothing was exercised"),
    ):
        assert run(["coverage", *place, *arguments]) == code
        assert sentence in capsys.readouterr().err


def test_an_empty_store_has_nothing_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store.create(tmp_path / "s").close()
    assert run(["coverage", "--store", str(tmp_path / "s"), "--fail-under", "10"]) == 5
    assert "Nothing was exercised" in capsys.readouterr().err


def test_damaged_turns_are_gaps(store: Store) -> None:
    with store.transaction() as database:
        for number, body in enumerate(["{", "[]", '{"coverage": 3}', '{"programs": 4}'], start=1):
            database.execute("INSERT INTO turns VALUES (1, 'onnxruntime', ?, ?)", (number, body))
    found = coverage_of(store)
    assert found.compilers[0].programs == 244
    assert len(found.gaps) == 3 and all("is damaged" in gap for gap in found.gaps)
    assert "is damaged" in coverage_page(found)


def test_names_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        hunted(store, "onnxruntime", {"<script>alert(1)</script> float32": {"pass": 1}})
        assert "<script>alert" not in coverage_page(coverage_of(store))


def test_turns_of_many_programs_are_read_by_their_counts_alone(tmp_path: Path) -> None:
    """Not by decoding graphs into values: 200,000 programs are to be answered in about a second. The time is held
    against that of parsing the same text, which no reader can do without."""
    body: dict[str, Any] = {
        "programs": 45,
        "coverage": {f"{name} float32": {"pass": 3, "fail": 1} for name in list(OPERATORS)[:60]},
        "interesting": [{"leaves": [], "nodes": [{"op": "add", "inputs": [0, 1]}] * 20}],
    }
    text = json.dumps(body)
    with Store.create(tmp_path / "s") as store:
        with store.transaction() as database:
            database.execute("INSERT INTO hunts VALUES (1, '{}', '{}', '', '', 0)")
            rows = [(1, "inductor", number, text) for number in range(2000)]
            database.executemany("INSERT INTO turns VALUES (?, ?, ?, ?)", rows)
        begun = time.process_time()
        for _ in range(2000):
            json.loads(text)
        parsing = time.process_time() - begun
        begun = time.process_time()
        found = exercised(store)
        reading = time.process_time() - begun
    assert found["inductor"].programs == 90_000
    assert reading < 8 * parsing + 0.5


def test_every_backend_that_is_hunted_can_be_reported(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        for name in BACKENDS:
            one = coverage_of(store, [name]).compilers[0]
            assert not one.exercised and all(level.covered == 0 for level in one.levels), name


def test_the_page_is_one_file_for_light_and_dark(store: Store) -> None:
    text = coverage_page(coverage_of(store))
    assert text.count("http") == 0 and "prefers-color-scheme: dark" in text
    for state in CellState:
        assert str(state) in text


def test_damaged_durations_give_the_least_time() -> None:
    assert commands._minutes(float("nan")) == commands._minutes(float("inf")) == commands._minutes(0.0) == 2
