"""Code that runs on a node of a cluster, in a process that Ray keeps, with its own pool. Results that the hunt must
distinguish are returned as values: a Ray exception means that a process or a node died."""

from __future__ import annotations

import atexit
from dataclasses import dataclass

from driftline import __version__
from driftline.campaign.hunt.carried import Carried, carried_out
from driftline.campaign.hunt.turns import screened
from driftline.campaign.orders import SuspectOrder, TurnOrder
from driftline.causes import Library
from driftline.checking.batch import Screened
from driftline.cluster.apart import ExaminedApart, examine_apart
from driftline.execute.pool import Pool
from driftline.store import Bug

KINDS_KEPT = 6  # of workers that a process has warm; each takes memory


def screen_there(order: TurnOrder) -> Carried[list[Screened]]:
    return carried_out(lambda: screened(_pool(), order), order.options.plugins)


def examine_there(order: SuspectOrder, library: Library | None, known: tuple[Bug, ...]) -> Carried[ExaminedApart]:
    return carried_out(lambda: examine_apart(_pool(), order, library, known), order.options.plugins)


def release_here() -> str:
    """The release of Driftline, which must be the same on all nodes."""
    return __version__


@dataclass
class _Node:
    """State of a node's process that is kept between orders."""

    pool: Pool | None = None


_NODE = _Node()


def _pool() -> Pool:
    if _NODE.pool is not None and _NODE.pool.kinds > KINDS_KEPT:
        _NODE.pool.close()
        _NODE.pool = None
    if _NODE.pool is None:
        _NODE.pool = Pool()
        atexit.register(_NODE.pool.close)
    return _NODE.pool
