"""Settings that a hunt draws: wrong code hides behind those that nobody tests.

Each compiler is hunted as it is, and a few times more with one setting changed. What is drawn follows from the seed
alone, and is a part of the targets in the hunt's plan, so a hunt that is resumed goes on with it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from driftline.backends import resolve
from driftline.campaign.plan import choose_lanes
from driftline.checking.checker import Skipped
from driftline.core.errors import DriftlineError
from driftline.core.processor import Processor, this_processor
from driftline.core.target import Target
from driftline.core.text import did_you_mean

VARY = "vary"
DRAWN = 3  # settings for each target


def check_settings_way(way: str) -> None:
    if way != VARY:
        raise DriftlineError(f"--settings {way}: write --settings vary.{did_you_mean(way, [VARY])}")


def vary_settings(
    wanted: Sequence[Target] | None, seed: int, processor: Processor | None = None
) -> tuple[list[Target], list[Skipped]]:
    """The targets of a hunt, each followed by itself with one setting changed, a few times; and those that are
    skipped."""
    chosen, skipped = choose_lanes(wanted)
    here = processor or this_processor()
    return list(dict.fromkeys(each for target in chosen for each in (target, *_drawn(target, seed, here)))), skipped


def _drawn(target: Target, seed: int, processor: Processor) -> list[Target]:
    """What the target sets itself stays as it is."""
    own = dict(target.options)
    free = [options for options in resolve(target).varied_settings(processor) if not options.keys() & own.keys()]
    drawn = random.Random(f"{seed} {target}").sample(free, min(DRAWN, len(free)))
    return [Target(target.backend, target.version, (*target.options, *options.items())) for options in drawn]
