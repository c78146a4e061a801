"""Instructions are counted where the kernel does; the same call with an event that needs no hardware shows that it is
made as the kernel wants it."""

from __future__ import annotations

import time

import pytest

from driftline.measure.instructions import count, instructions
from driftline.measure.rounds import Rounds, Timing

TASK_CLOCK = (1, 1)  # a software event: nanoseconds that this thread has run


def test_an_event_of_the_kernel_is_counted() -> None:
    count(TASK_CLOCK)
    began = time.thread_time()
    while time.thread_time() < began + 0.05:
        pass
    if not (counted := count(TASK_CLOCK)):
        pytest.skip("the kernel refuses perf_event_open")
    assert 0.04e9 < counted < 5e9


def test_instructions_grow_or_are_not_counted() -> None:
    first = instructions()
    sum(range(100_000))
    assert (first == instructions() == 0) or instructions() > first + 100_000


def test_the_ratio_of_instructions_needs_all_counts() -> None:
    def rounds(*counts: float) -> Rounds:
        return Rounds(tuple(Timing(1.0, 1.0, n) for n in counts), tuple(Timing(1.0, 1.0, 100.0) for _ in counts))

    found = rounds(*[300.0] * 8).instructions()
    assert found and found.value == pytest.approx(3.0) and found.low == pytest.approx(3.0)
    assert rounds(300.0, 0.0).instructions() is None
