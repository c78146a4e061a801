"""Programs compiled as one: one that fails costs those in its half their company, not all of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from driftline.execute import tasks
from driftline.execute.shelf import Shelf


@pytest.mark.parametrize(
    ("bad", "alone", "tried"),
    [
        (set(), set(), [8]),
        ({2}, {2, 3}, [8, 4, 2, 2, 4]),
        ({0, 1, 2, 3, 4, 5, 6, 7}, set(range(8)), [8, 4, 2, 2, 4, 2, 2]),
    ],
)
def test_halves(
    bad: set[int], alone: set[int], tried: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes: list[int] = []

    def run_together(backend: object, options: object, group: list[Any], shelf: object) -> dict[int, Any] | None:
        sizes.append(len(group))
        numbers = {job.number for job in group}
        return None if numbers & bad else {number: {"outcome": "OK"} for number in numbers}

    monkeypatch.setattr(tasks, "_run_together", run_together)
    group = [SimpleNamespace(number=number) for number in range(8)]
    context = SimpleNamespace(lap=lambda: None)
    with Shelf(tmp_path / "shelf") as shelf:
        done = tasks._run_in_halves(cast(Any, None), {}, cast(Any, group), shelf, cast(Any, context))
    assert set(range(8)) - done.keys() == alone
    assert sizes == tried
