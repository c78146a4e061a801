"""Presets of targets, which backends choose themselves; and the record of how long targets take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driftline.backends import BACKENDS
from driftline.backends.presets import ALL, DEFAULT, PRESETS, QUICK, described, holds
from driftline.campaign.check.session import choose_targets, fitting_targets
from driftline.campaign.hunt.plan import choose_lanes
from driftline.checking.pace import cheap_first, estimate, expected, note_durations
from driftline.core.errors import DriftlineError
from driftline.core.program import Program
from driftline.core.target import Target, parse_targets

MODEL = Program("onnx", "onnx", "0" * 64, Path("model.onnx"), "model.onnx", weights=3 << 20)


def names(text: str | None) -> list[str]:
    return [str(target) for target in choose_targets(MODEL, parse_targets(text) if text else None)[0]]


def test_each_preset_holds_the_one_before_it() -> None:
    quick, default, everything = (names(preset) for preset in PRESETS)
    assert set(quick) < set(default) < set(everything)
    assert "onnxruntime" in quick and "tvm" in default and "onnx-reference" in everything
    assert names(None) == default


def test_presets_mix_with_targets_and_name_no_target_twice() -> None:
    mixed = names("quick,tvm,onnxruntime,onnxruntime:opt=off")
    assert mixed == [*names(QUICK), "tvm", "onnxruntime:opt=off"]


def test_a_preset_takes_no_options() -> None:
    with pytest.raises(DriftlineError, match="quick is a preset"):
        names("quick:opt=off")


def test_a_project_may_usually_check_a_preset() -> None:
    fit, skipped = fitting_targets(MODEL, parse_targets("quick,inductor"))
    assert [str(target) for target in fit] == [QUICK] and [str(one.target) for one in skipped] == ["inductor"]


def test_hunts_take_presets() -> None:
    lanes = [str(target) for target in choose_lanes(parse_targets("quick,tvm"))[0]]
    assert "onnxruntime" in lanes and "tvm" in lanes and "inductor" not in lanes


def test_the_help_names_every_backend_once() -> None:
    told = dict(described())
    listed = [name for text in told.values() for name in text.rpartition(": ")[2].split(", ")]
    assert sorted(name.rpartition(" and ")[2] for name in listed) == sorted(BACKENDS)
    assert all(holds(ALL, name) for name in BACKENDS) and not holds(DEFAULT, "aotinductor")


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path))
    return tmp_path / "durations.json"


def test_estimates_come_from_past_runs_on_programs_of_this_size(record: Path) -> None:
    slow, quick = Target("tvm"), Target("onnxruntime")
    assert estimate(slow, MODEL) is None and expected(slow, MODEL) is None
    for seconds in (50.0, 61.0, 600.0):
        note_durations(MODEL, [(slow, seconds), (quick, 0.5)])
    assert estimate(slow, MODEL) == expected(slow, MODEL) == 61.0
    assert estimate(quick, MODEL) == 0.5 and expected(quick, MODEL) is None, "not worth telling"
    assert estimate(slow, replace(MODEL, weights=3 << 30)) is None
    assert estimate(slow, replace(MODEL, form="torch")) is None
    record.write_text('{"tvm')
    assert estimate(slow, MODEL) is None
    note_durations(MODEL, [(slow, 2.0)])
    assert estimate(slow, MODEL) == 2.0


def test_cheap_targets_go_first(record: Path) -> None:
    targets = parse_targets("aotinductor,tvm,iree,openvino,onnxruntime")
    note_durations(MODEL, [(Target("iree"), 3.0), (Target("tvm"), 9.0), (Target("onnxruntime"), 0.1)])
    ordered = [str(target) for target in cheap_first(targets, MODEL)]
    assert ordered == ["onnxruntime", "openvino", "iree", "tvm", "aotinductor"]
