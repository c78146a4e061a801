"""An error that is known from the store needs no second look; what cannot be read of the store is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from driftline.campaign.triage.examination import Triage
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import PreparedProgram, ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.evidence import Evidence
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.core.verdict import Fingerprint, Kind, Status
from driftline.store import Store

TARGET = Target("inductor")
SAID = Evidence(stage="COMPILE", exception="ValueError", message="no")
BUGS = ("abs", "exp")  # what each bug is about


def failing(folder: Path, *operators: str) -> Screened:
    made = PreparedProgram(case(folder).program, "", "", ("random",), grad=False, company="plain")
    coverage = tuple((name, "float32") for name in operators)
    request = ProgramRequest("graph", operators[0], 0, ("random",), seed="0")
    return Screened(request, "fail", kind=Kind.ERROR, evidence=SAID, made=made, coverage=coverage)


def case(folder: Path) -> Case:
    path = folder / "program"
    path.write_bytes(SourceBundle("m.py", "f", {"m.py": "x"}).dump())
    program = Program("source", "torch", file_digest(path), path, "m.py:f", (TensorSpec("x", "float32", (3,)),))
    return Case(program, (Inputs({"x": np.ones(3, np.float32)}, "example"),), (TARGET,), CheckOptions())


def filled(folder: Path) -> Store:
    store = Store.create(folder / "store")
    for name in BUGS:
        store.add_finding(
            Fingerprint("inductor", "COMPILE", Kind.ERROR, f"ValueError in {name} of float"),
            case(folder), TARGET, summary="", status=Status.NEW, verdict={"evidence": SAID.to_json()}, execution={},
        )  # fmt: skip
    return store


def test_of_the_same_operators_and_settings(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        triage = Triage(cast(Checker, None), store)
        known = triage.known_error(TARGET, failing(tmp_path, "exp", "sin"))
        assert known and known.fingerprint.detail == "ValueError in exp of float"
        assert triage.known_error(TARGET, failing(tmp_path, "sin")) is None
        assert triage.known_error(Target.parse("inductor:dynamic=true"), failing(tmp_path, "exp")) is None
        store.mark(known.id, Status.FIXED)
        assert triage.known_error(TARGET, failing(tmp_path, "exp")) is None


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE findings SET verdict = 'no JSON' WHERE bug = ?",
        "UPDATE findings SET verdict = json_set(verdict, '$.evidence', 3) WHERE bug = ?",
        "UPDATE findings SET target = 'no: target' WHERE bug = ?",
    ],
)
def test_a_damaged_bug_does_not_end_the_hunt(tmp_path: Path, damage: str) -> None:
    with filled(tmp_path) as store:
        first, second = sorted(bug.id for bug in store.bugs())
        with store.transaction() as database:
            assert database.execute(damage, (first,)).rowcount == 1
        known = Triage(cast(Checker, None), store).known_error(TARGET, failing(tmp_path, *BUGS))
        assert known and known.id == second
        assert any(first in gap and "is damaged" in gap for gap in store.gaps)
