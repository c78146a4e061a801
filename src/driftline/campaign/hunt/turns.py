"""A turn of programs, carried out by the workers of a pool."""

from __future__ import annotations

from driftline.campaign.orders import TurnOrder
from driftline.checking.batch import Screened, Screening
from driftline.execute.pool import Pool


def screened(pool: Pool, order: TurnOrder) -> list[Screened]:
    """What the workers of a pool make of a turn."""
    options = order.options
    with Screening(
        pool,
        order.form,
        seed=options.seed,
        plugins=options.plugins,
        timeout=options.timeout,
        shards=order.pieces,
        explain=False,  # who examines a suspect asks for that
    ) as screening:
        return screening.screen(order.requests, order.target, heard=order.heard, cut=True)
