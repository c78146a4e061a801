"""Programs compiled as one: one that fails does not cost all of them their company."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from driftline.backends.base import Blamed
from driftline.execute import tasks
from driftline.execute.shelf import Shelf


@pytest.mark.parametrize(
    ("bad", "told", "alone", "tried"),
    [
        (set(), set(), set(), [8]),
        ({2}, set(), {0, 1, 2, 3}, [8, 4, 4]),
        ({2}, {2}, {2}, [8, 7]),
        ({2, 5}, {2, 5}, {2, 5}, [8, 7, 6]),  # one is told at a time
        ({2, 5}, {5}, {0, 1, 2, 5}, [8, 7, 3, 4]),
        ({0, 1, 2, 3, 4, 5, 6, 7}, set(), set(range(8)), [8, 4, 4]),
    ],
)
def test_company(
    bad: set[int], told: set[int], alone: set[int], tried: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`bad` fail; of `told` the compiler says so."""
    sizes: list[int] = []

    def run_together(backend: object, options: object, group: list[Any], shelf: object) -> dict[int, Any]:
        sizes.append(len(group))
        numbers = [job.number for job in group]
        if blamed := [place for place, number in enumerate(numbers) if number in told]:
            raise Blamed(blamed[:1])
        if bad.intersection(numbers):
            raise RuntimeError
        return {number: {"outcome": "OK"} for number in numbers}

    monkeypatch.setattr(tasks, "_run_together", run_together)
    group = [SimpleNamespace(number=number) for number in range(8)]
    context = SimpleNamespace(lap=lambda: None)
    with Shelf(tmp_path / "shelf") as shelf:
        done = tasks._run_in_company(cast(Any, None), {}, cast(Any, group), shelf, cast(Any, context))
    assert set(range(8)) - done.keys() == alone
    assert sizes == tried
