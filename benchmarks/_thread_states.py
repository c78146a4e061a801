"""What the threads of a hunt do, looked at ten times a second: which tasks run, who waits, and for what.

A hunt has a thread for each order that is carried out, and others for the pieces of a turn. A task has one of the
places of the pool (`execute/slots.py`) from when its worker is sought until it has answered.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Any

EVERY = 0.1  # seconds

# The file and the function in which a thread is -> what that means; the innermost one counts.
_MEANING = {
    ("slots", "__enter__"): "waits for a place",
    ("nursery_handle", "fork"): "starts a worker",
    ("pool", "_nursery"): "waits for an import",
    ("pool", "_warmed"): "imports",
    ("worker_handle", "dismiss"): "ends a worker",
    ("pipeline", "finish"): "writes a turn",
    ("screener", "_side_by_side"): "",  # waits for threads that are counted themselves
    ("checker", "check"): "",  # so does this
    ("foremen", "carry_out"): "waits for a foreman",
    ("pool", "_run_on"): "has a place and runs nothing",
    ("pool", "_acquire"): "has a place and runs nothing",
    ("screener", "screen"): "the parent's own work",
    ("hunt", "_turn"): "the parent's own work",
    ("hunt", "_examine"): "the parent's own work",
}


class ThreadStates:
    """Inside the block, the threads of this process are looked at."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._looks = 0
        self._over = threading.Event()

    def __enter__(self) -> ThreadStates:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def mean(self) -> dict[str, float]:
        """How many threads were in each state on average, most first."""
        return {state: round(count / max(1, self._looks), 2) for state, count in self._seen.most_common()}

    def _look(self) -> None:
        while not self._over.wait(EVERY):
            self._looks += 1
            self._seen.update(state for frame in sys._current_frames().values() if (state := _state(frame)))


def _state(innermost: FrameType) -> str:
    for frame in _outwards(innermost):
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith("driftline."):
            continue
        place = module.rpartition(".")[2], frame.f_code.co_name
        if place == ("worker_handle", "run"):
            return f"runs {frame.f_locals['job'].task.rpartition(':')[2]}"
        if place == ("roster", "take"):
            return _why_idle(frame.f_locals["self"])
        if place in _MEANING:
            return _MEANING[place]
    return ""


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _why_idle(roster: Any) -> str:
    standings = [one for one in list(roster._standings.values()) if not one.done]
    if any(one.pipeline.may_ask(one.turning) for one in standings):
        return "nothing to do: the rest of the time is for suspects"
    return "nothing to do: earlier turns are not written" if standings else "nothing to do: no more turns"
