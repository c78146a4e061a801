"""Draws compiler settings for a hunt, since settings that are rarely tested may hide bugs.

Each compiler is hunted as it is, and a few times more with one setting changed (`vary`), or with several settings that
control how its loops are made (`loops`). The settings drawn depend only on the seed and are part of the targets in the
hunt's plan, so a resumed hunt keeps them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from driftline.backends import BACKENDS, resolve
from driftline.campaign.hunt.plan import choose_lanes
from driftline.checking.checker import Skipped
from driftline.core.errors import DriftlineError
from driftline.core.processor import Processor, this_processor
from driftline.core.target import Target
from driftline.core.text import did_you_mean

VARY, LOOPS = "vary", "loops"
WAYS = (VARY, LOOPS)
DRAWN = 3  # variants of each target
LOOP_SETTINGS = (2, 5)  # least and most settings in one variant


def check_settings_way(way: str) -> None:
    if way not in WAYS:
        raise DriftlineError(f"--settings {way}: write one of {', '.join(WAYS)}.{did_you_mean(way, WAYS)}")


def vary_settings(
    wanted: Sequence[Target] | None, seed: int, processor: Processor | None = None, way: str = VARY
) -> tuple[list[Target], list[Skipped]]:
    """Return the targets of a hunt, each followed by its variants with changed settings, and the skipped targets."""
    chosen, skipped = choose_lanes(wanted)
    here = processor or this_processor()

    def draw(target: Target) -> list[Target]:
        return _drawn(target, seed, here) if way == VARY else _drawn_loops(target, seed)

    if way == LOOPS and not any(resolve(target).loop_settings() for target in chosen):
        able = ", ".join(sorted(name for name in BACKENDS.names() if BACKENDS.get(name).loop_settings()))
        raise DriftlineError(f"--settings loops: none of these targets has settings of its loops. These have: {able}.")
    return list(dict.fromkeys(each for target in chosen for each in (target, *draw(target)))), skipped


def _drawn_loops(target: Target, seed: int) -> list[Target]:
    """Return variants of the target with several loop settings each, no two of the same name."""
    own = dict(target.options)
    free = [options for options in resolve(target).loop_settings() if not options.keys() & own.keys()]
    rng = random.Random(f"loops {seed} {target}")
    drawn = []
    for _ in range(DRAWN if free else 0):
        mixed: dict[str, str] = {}
        for options in rng.sample(free, min(len(free), rng.randint(*LOOP_SETTINGS))):
            mixed = {**options, **mixed}
        drawn.append(Target(target.backend, target.version, (*target.options, *sorted(mixed.items()))))
    return drawn


def _drawn(target: Target, seed: int, processor: Processor) -> list[Target]:
    """Return variants of the target with one setting each; settings of the target itself are not changed."""
    own = dict(target.options)
    free = [options for options in resolve(target).varied_settings(processor) if not options.keys() & own.keys()]
    drawn = random.Random(f"{seed} {target}").sample(free, min(DRAWN, len(free)))
    return [Target(target.backend, target.version, (*target.options, *options.items())) for options in drawn]
