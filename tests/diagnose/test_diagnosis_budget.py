"""What a diagnosis costs: it ends with its budget, and a hunt spends none on what is reported already."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driftline.campaign import diagnosis
from driftline.campaign.bisection import Trial
from driftline.campaign.failing import find_failing
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.verdict import Status
from driftline.diagnose.bisect import Answer
from driftline.store import Store

CLIP = Path(__file__).resolve().parents[2] / "examples" / "bugs" / "onnxruntime_relu_clip_float64.py"


def not_now(*_: Any, **__: Any) -> None:
    raise DriftlineError("not now")


def endless(*_: Any, tried: Callable[[Trial], None], **__: Any) -> None:
    """More releases than there is time for; the bug comes with the third."""
    for number in itertools.count():
        time.sleep(0.1)
        tried(Trial(f"1.{number}.0", Answer.GOOD if number < 2 else Answer.BAD, "", 0.1, made=False))


def test_a_hunt_explains_what_nobody_has_reported(store_folder: Path, checker: Checker) -> None:
    with Store.create(store_folder) as store:
        known = find_failing(
            f"{CLIP}:program", store, checker, target=Target.parse("onnxruntime"), options=CheckOptions()
        ).bug
    assert known.status is Status.KNOWN, "its issue is in the table"
    bugs = {known.id: known, "other": replace(known, id="other", status=Status.NEW)}
    assert diagnosis.unreported([known.id, "other"], bugs) == ["other"]


def test_asking_releases_ends_with_the_budget(
    store_folder: Path, checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in ("localize_failing", "reduce_failing", "ablate_failing"):
        monkeypatch.setattr(diagnosis, step, not_now)
    monkeypatch.setattr(diagnosis, "bisect_failing", endless)
    with Store.create(store_folder) as store:
        failing = find_failing(
            f"{CLIP}:program", store, checker, target=Target.parse("onnxruntime"), options=CheckOptions()
        )
        began = time.monotonic()
        found = diagnosis.diagnose_failing(checker, store, failing, budget=0.5, bisect=True)
    assert time.monotonic() - began < 5
    assert found.bisected and found.bisected["first_bad"] == "1.2.0", "what was asked until then is told"
    assert "time was up after" in found.notes["bisect"]
