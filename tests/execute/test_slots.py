"""Who gets the next place: the oldest order, whenever its task comes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from driftline.execute.slots import Slots, of_this_order, one_order

LONG = 30.0  # seconds: only a fault takes them


def _wait_until(slots: Slots, waiting: int) -> None:
    until = time.monotonic() + LONG
    while len(slots._waiting) < waiting:
        assert time.monotonic() < until
        time.sleep(0.001)


def test_of_those_that_wait_the_oldest_order_goes_first_also_with_a_task_that_came_later() -> None:
    slots, served = Slots(1), []

    def task(name: str) -> None:
        with slots:
            served.append(name)

    with ThreadPoolExecutor(4) as threads, slots:
        with one_order():
            old = of_this_order(task)
        with one_order():
            threads.submit(of_this_order(task), "young")
        _wait_until(slots, 1)
        threads.submit(old, "old")
        _wait_until(slots, 2)
        threads.submit(task, "of no order")
        _wait_until(slots, 3)
    assert served == ["old", "young", "of no order"]


def test_never_more_at_once_than_there_are_places() -> None:
    slots, lock, most, now = Slots(3), threading.Lock(), 0, 0

    def task(_: int) -> None:
        nonlocal most, now
        with one_order(), slots:
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.001)
            with lock:
                now -= 1

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(task, range(120)))
    assert most == 3 and slots._free == 3 and not slots._waiting


@pytest.mark.parametrize("granted", [False, True])
def test_one_that_is_interrupted_while_it_waits_takes_no_place_with_it(
    granted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = Slots(1)

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        if granted:
            slots.__exit__()
        raise KeyboardInterrupt

    slots.__enter__()
    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        slots.__enter__()
    if not granted:
        slots.__exit__()
    assert slots._free == 1 and not slots._waiting
