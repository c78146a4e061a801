"""Perturb programs that fire a rule: change what the rule does not constrain. Each file has one kind of change."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator

from driftline.patterns.inductor.draft import Draft
from driftline.patterns.inductor.perturb import (
    arguments,
    dtypes,
    keywords,
    modes,
    operands,
    shapes,
    users,
    values,
)
from driftline.patterns.inductor.perturb.mutant import Mutant, Mutator

# How many programs of an idea are tried before the next idea has its turn: what rules are most often wrong about, most.
_TURNS: dict[Mutator, int] = {
    arguments.mutants: 4,
    keywords.mutants: 4,
    operands.tensors_for_numbers: 2,
    dtypes.one: 2,
    dtypes.all_alike: 1,
    shapes.broadcast: 2,
    operands.numbers_for_tensors: 1,
    modes.dynamic: 1,
    values.ordinary: 1,
    users.returned: 1,
    shapes.first_sizes: 1,
    operands.numbers_of_another_type: 1,
    modes.training: 1,
    shapes.resized: 1,
    values.special: 1,
    shapes.laid_out: 1,
    operands.the_same_twice: 1,
    operands.swapped: 1,
    modes.held: 1,
    users.computed_with: 1,
}


def mutants(draft: Draft, seed: int) -> Generator[Mutant, bool, None]:
    """Yield the draft unchanged, then mutants of all kinds in turn until none is left. Send False after a mutant that
    was of no use, such as one that does not run: it then does not count for its kind."""
    yield from modes.as_it_is(draft, random.Random(seed))
    waiting = {_spread(mutator(draft, random.Random(seed))): turns for mutator, turns in _TURNS.items()}
    while waiting:
        for source, turns in list(waiting.items()):
            left = turns
            while left:
                mutant = next(source, None)
                if mutant is None:
                    del waiting[source]
                    break
                left -= (yield mutant) is not False


def _spread(found: Iterator[Mutant]) -> Iterator[Mutant]:
    """Yield the first mutant of every spot, then the second ones, and so on."""
    by_spot: dict[str, list[Mutant]] = {}
    for mutant in found:
        by_spot.setdefault(mutant.spot, []).append(mutant)
    while by_spot:
        for spot in list(by_spot):
            yield by_spot[spot].pop(0)
            if not by_spot[spot]:
                del by_spot[spot]


__all__ = ["Mutant", "modes", "mutants"]
