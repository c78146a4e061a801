"""What a diagnosis costs: it ends with its budget, and a hunt spends none on what is reported already."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driftline.campaign.explain import diagnosis
from driftline.campaign.explain.ablation import ablate_failing
from driftline.campaign.explain.bisection import Trial
from driftline.campaign.explain.failing import Failing, find_failing
from driftline.campaign.explain.localization import localize_failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.verdict import Status
from driftline.diagnose.bisect import ReleaseAnswer
from driftline.report.annotated import causes_of
from driftline.store import Store
from driftline.testing import planted_plugin

CLIP = Path(__file__).resolve().parents[2] / "examples" / "bugs" / "onnxruntime_relu_clip_float64.py"


def not_now(*_: Any, **__: Any) -> None:
    raise DriftlineError("not now")


def endless(*_: Any, tried: Callable[[Trial], None], **__: Any) -> None:
    """More releases than there is time for; the bug comes with the third."""
    for number in itertools.count():
        if number > 2:
            time.sleep(0.1)
        tried(Trial(f"1.{number}.0", ReleaseAnswer.GOOD if number < 2 else ReleaseAnswer.BAD, "", 0.1, made=False))


def test_a_hunt_explains_what_is_not_reported_yet(store_folder: Path, checker: Checker) -> None:
    with Store.create(store_folder) as store:
        found = find_failing(
            f"{CLIP}:program", store, checker, target=Target.parse("onnxruntime"), options=CheckOptions()
        ).bug
        assert found.status is Status.NEW and causes_of(found), "a cause does not make it known"
        known = store.mark(found.id, Status.KNOWN)
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
        found = diagnosis.diagnose_failing(checker, store, failing, budget=1.0, bisect=True)
    assert found.bisected and found.bisected["first_bad"] == "1.2.0", "what was asked until then is told"
    assert "time was up after" in found.notes["bisect"]


def test_what_is_at_work_when_the_budget_is_over_is_ended(store_folder: Path, checker: Checker) -> None:
    with Store.create(store_folder) as store:
        failing = find_failing(
            f"{CLIP}:program", store, checker, target=Target.parse("onnxruntime"), options=CheckOptions()
        )
        before = checker.pool.deadline
        found = diagnosis.diagnose_failing(checker, store, failing, budget=0.01)
    assert found.localized is None and found.notes["localize"] == "the budget ended before it came to a result"
    # Localising has a share of the time: the little that it leaves may let the reduction begin, never end.
    assert found.reduced is None and found.notes["reduce"]
    assert checker.pool.deadline == before, "the pool is good for more"


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory, checker: Checker) -> Iterator[tuple[Store, Failing]]:
    """A compiler that hangs, found with little patience, and then asked with much: one question lasts half an hour."""
    load_plugins([planted_plugin()])
    options = CheckOptions(timeout=2.0, plugins=(planted_plugin(),))
    with Store.create(tmp_path_factory.mktemp("hanging") / "store") as store:
        target = Target.parse("planted-hang")
        failing = find_failing(f"{CLIP}:program", store, checker, target=target, options=options)
        yield store, replace(failing, case=replace(failing.case, options=replace(options, timeout=1800.0)))


@pytest.mark.parametrize("explain", [localize_failing, reduce_failing, ablate_failing])
def test_each_step_by_itself_ends_what_is_at_work(
    explain: Any, hanging: tuple[Store, Failing], checker: Checker
) -> None:
    store, failing = hanging
    before = checker.pool.deadline
    with pytest.raises(DriftlineError, match="--budget"):
        explain(checker, store, failing, budget=1.0)
    assert checker.pool.deadline == before
