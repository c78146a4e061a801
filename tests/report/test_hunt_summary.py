"""What is shown at the end of a hunt when a part of it cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from filled_store import fill

from driftline.campaign.hunt.result import hunt_so_far
from driftline.report import hunts
from driftline.store import Store
from driftline.store.hunts import HuntLog


def fail(*_: object, **__: object) -> NoReturn:
    raise KeyError("12")


def test_hunt_that_cannot_be_listed_names_its_bugs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(fill(tmp_path / "store")) as store:
        result = hunt_so_far(store, HuntLog(store).hunts()[0])
        assert result.bugs
        monkeypatch.setattr(hunts, "gather_store", fail)
        hunts.show_hunt(result, store)
    shown = capsys.readouterr().out
    assert all(name in shown for name in result.bugs) and "Report:" in shown
    assert [step.step for step in result.failed_steps] == ["listing the bugs"]
