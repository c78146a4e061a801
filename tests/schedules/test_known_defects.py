"""Known defects of schedule primitives: every witness fails as it is said, every neighbour is right."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from driftline.execute.pool import Pool
from driftline.schedules.asking import ScheduleAsker
from driftline.schedules.known import DEFECTS, defect_of
from driftline.schedules.script import script_of
from driftline.schedules.trace import ScheduleStep, Trace


def test_every_witness_fails_and_is_explained_and_every_neighbour_is_right(pool: Pool) -> None:
    asker = ScheduleAsker(pool)
    witnesses = asker.perform([one.witness for one in DEFECTS])
    neighbours = asker.perform([one.neighbour for one in DEFECTS])
    otherwise = []
    for defect, shown, beside in zip(DEFECTS, witnesses, neighbours, strict=True):
        found = defect_of(shown.trace, shown.kind, shown.stage, shown.evidence.message)
        if found is not defect:
            otherwise.append((defect.name, shown.kind, shown.stage, shown.evidence.message, shown.refused))
        assert not beside.fails and not beside.refused, (defect.name, beside.kind, beside.refused)
    # They were all seen on Arm. What a copy without its predicate reads beside an array may look otherwise elsewhere.
    assert len(otherwise) <= (0 if platform.machine() in ("aarch64", "arm64") else len(DEFECTS) // 10), otherwise
    assert len({one.name for one in DEFECTS}) == len({one.title for one in DEFECTS}) == len(DEFECTS)


@pytest.mark.parametrize("defect", DEFECTS, ids=[one.name for one in DEFECTS])
def test_a_defect_explains_no_other_failure(defect: object) -> None:
    """Another kind, another stage, another message, further steps: a defect must not hide what is new."""
    (one,) = [each for each in DEFECTS if each is defect]
    witness, said = one.witness, "Check failed: something else"
    more = witness.with_steps((*witness.steps, ScheduleStep("unroll")))
    assert not one.explains(witness, "timeout", one.stage, said)
    assert not one.explains(witness, one.kind, "COMPILE", said)
    assert not one.explains(more, one.kind, one.stage, said)
    assert not one.explains(Trace("scale"), one.kind, one.stage, said)
    assert one.explains(witness, one.kind, one.stage, said) != bool(one.message)


def test_what_cannot_be_built_needs_all_steps_of_the_witness() -> None:
    (one,) = [each for each in DEFECTS if each.name == "transform-layout-keeps-an-alignment"]
    message = "vector::_M_range_check: __n (which is #) >= this->size() (which is #)"
    aligned, flat = one.witness.steps
    for steps, known in (((aligned, flat), True), ((aligned, ScheduleStep("unroll"), flat), True), ((flat,), False)):
        assert one.explains(one.witness.with_steps(steps), one.kind, one.stage, message) == known


@pytest.mark.parametrize("function", ["row_sum", "row_max"])
def test_a_script_shows_a_write_outside_also_of_the_number_that_the_inputs_hold(function: str, tmp_path: Path) -> None:
    (one,) = [each for each in DEFECTS if each.name == "rfactor-loses-a-predicate"]
    script = tmp_path / "script.py"
    script.write_text(script_of(replace(one.witness, function=function), kind=one.kind, stage=one.stage))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 1 and "wrote outside an array" in done.stderr
