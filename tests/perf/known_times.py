"""Times that are known: what is compiled and run is real, and what a call takes is given by the test, so that no busy
machine changes what is concluded from it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

import pytest

from driftline.measure.contestant import Contestant
from driftline.measure.rounds import Timing
from driftline.perf.comparison import Side, Stopwatch, Unmeasured

SPREAD = (1.0, 1.01, 0.99, 1.02)  # of one call after the other


def know_times(monkeypatch: pytest.MonkeyPatch, seconds: Callable[[Side], float]) -> None:
    """Let every side be compiled and run in its process, and let a call of it take `seconds(side)`."""
    enter = Stopwatch._enter

    def entered(self: Stopwatch, held: contextlib.ExitStack, side: Side) -> Contestant | Unmeasured:
        made = enter(self, held, side)
        if isinstance(made, Contestant):
            took, spread = seconds(side), itertools.cycle(SPREAD)
            made.time = lambda calls: Timing(wall := took * next(spread), wall)  # type: ignore[method-assign]
        return made

    monkeypatch.setattr(Stopwatch, "_enter", entered)


def planted_times(side: Side) -> float:
    """Return what a call takes on `planted-slow`: `factor` times a millisecond, unless the guilty pass is skipped."""
    options = dict(side.target.options)
    skipped = options.get("skip", "").split("+")
    guilty = side.target.backend == "planted-slow" and "tile" not in skipped
    return 1e-3 * float(options.get("factor", "1")) if guilty else 1e-3
