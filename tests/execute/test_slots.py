"""Who gets the next place: the oldest order, whenever its task comes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from driftline.execute.slots import PlaceTime, Slots, of_this_order, one_order

LONG = 120.0  # seconds: only a fault takes them


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


def test_the_time_of_an_order_is_that_of_its_places_and_not_of_its_waiting() -> None:
    slots, both, waiting = Slots(2), PlaceTime(), PlaceTime()
    entered = threading.Barrier(3, timeout=LONG)
    leave = threading.Event()

    def hold() -> None:
        with slots:
            entered.wait()
            leave.wait(LONG)

    def ask() -> None:
        with one_order(waiting), slots:
            pass

    with ThreadPoolExecutor(3) as threads:
        with one_order(both):
            pieces = [of_this_order(hold) for _ in range(2)]
        for piece in pieces:
            threads.submit(piece)
        entered.wait()
        began, before = time.monotonic(), both.seconds
        last = threads.submit(ask)
        _wait_until(slots, 1)
        while time.monotonic() < began + 0.05:
            time.sleep(0.001)
        assert both.seconds - before >= 2 * 0.05, "two places count twice"
        assert not waiting.begun and waiting.seconds == 0.0
        left = time.monotonic()
        leave.set()
        last.result(LONG)
    assert waiting.begun and waiting.seconds <= time.monotonic() - left
    total = both.seconds
    assert both.seconds == total, "what has ended takes nothing"
