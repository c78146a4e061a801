"""Budgets that hold: what still runs when a search's time is over is ended, not waited for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from driftline.core.errors import DriftlineError
from driftline.diagnose.reduce.search import BudgetEnded
from driftline.execute.pool import Pool, PoolExpired

GRACE = 0.1  # of the budget: what is still at work then is ended


class NoTimeLeft(DriftlineError):
    """The budget ended before there was anything to show."""


@contextlib.contextmanager
def cut_at_end(pool: Pool, budget: float, what: str) -> Iterator[None]:
    """What runs in the pool a little after the budget is ended. `what` is the command, for the sentence that is said
    when nothing came of it. Of budgets within each other the outermost is named: that is the one that was given."""
    before = pool.deadline
    pool.deadline = min(before, time.monotonic() + (1 + GRACE) * budget)
    try:
        yield
    except (BudgetEnded, PoolExpired, NoTimeLeft) as ended:
        raise NoTimeLeft(
            f"{what}: the budget of {budget:.0f} s ended before it came to a result; give it more with --budget."
        ) from ended
    finally:
        pool.deadline = before
