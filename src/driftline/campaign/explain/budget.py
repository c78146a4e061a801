"""Time budgets of searches: tasks that still run when the budget is over are ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from driftline.core.errors import DriftlineError
from driftline.diagnose.reduce.search import BudgetEnded
from driftline.execute.pool import Pool, PoolExpired

GRACE = 0.1  # tasks that still run this share of the budget after its end are ended


class NoTimeLeft(DriftlineError):
    """The budget ended before there was a result."""


@contextlib.contextmanager
def cut_at_end(pool: Pool, budget: float, what: str) -> Iterator[None]:
    """End the pool's tasks shortly after the budget is over. `what`: the command, named in the error if there is no
    result. Of nested budgets the error names the outermost, which is the one that the user gave."""
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
