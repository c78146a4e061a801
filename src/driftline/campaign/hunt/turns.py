"""Carries out a turn of programs with the workers of a pool."""

from __future__ import annotations

from driftline.campaign.orders import TurnOrder
from driftline.checking.batch import Screened, Screening
from driftline.execute.pool import Pool


def screened(pool: Pool, order: TurnOrder) -> list[Screened]:
    """Make, run and judge the programs of a turn with the workers of a pool; return the results."""
    options = order.options
    with Screening(
        pool,
        order.form,
        seed=options.seed,
        plugins=options.plugins,
        timeout=options.timeout,
        shards=order.pieces,
        explain=False,  # the examination of a suspect asks for the explanation
    ) as screening:
        return screening.screen(order.requests, order.target, heard=order.heard, cut=True)
