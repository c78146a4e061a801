"""Step 1: numbers at which formats and functions change, alone, mixed, and in rows of one value and its neighbours."""

from __future__ import annotations

import math

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.formats import Format
from driftline.inputs.symbolic.goals import Query

ROWS = 1024
_ANY = (0.0, 1.0, 2.0, 0.5, 3.0, 1 / 3, 1e-3, 1e-5, 1e-7, 10.0, 12.0, 17.5, 20.0, 50.0, 100.0, 255.0, 1000.0, 1e4)


def special_numbers(form: Format) -> Array:
    """Return about fifty numbers of each sign: ends, powers, and where exp, log, squares and integers leave the
    format."""
    large, tiny, small = form.largest, float(form.value_of(np.asarray(1))), form.smallest_normal
    edges = [large, large / 2, math.sqrt(large), math.sqrt(large / 2), large ** (1 / 3), tiny, 2 * tiny, small]
    edges += [math.sqrt(small), math.sqrt(tiny), small / 2, 1 / large, form.epsilon, 1 + form.epsilon]
    edges += [1 - form.epsilon / 2, 2.0**form.significand, math.log(large), -math.log(tiny), -math.log(small)]
    edges += [math.log(large) * 1.01, -math.log(tiny) * 1.05, math.log2(large), math.log(large) / 2, form.epsilon**0.5]
    numbers = form.round(np.array([*_ANY, *edges], np.float64))
    numbers = numbers[np.isfinite(numbers)]
    return np.unique(np.concatenate([numbers, -numbers]))


def special_rows(query: Query, rng: np.random.Generator, rows: int = ROWS) -> Array:
    """Return rows of ordinals: half of the rows mix special numbers freely, half repeat one of them up to two ULP
    off."""
    low, high = query.bounds
    count, half = len(low), rows // 2
    own_constants = [node.value for node in query.order if node.op == "constant" and np.isfinite(node.value)][:64]
    made = np.empty((rows, count), np.int64)
    forms = [node.format for node in query.variables]
    for at, form in enumerate(forms):
        numbers = np.clip(np.array([*own_constants, *(-value for value in own_constants)]), -form.largest, form.largest)
        own = form.ordinal_of(np.concatenate([special_numbers(form), form.round(numbers)]))
        ends = np.array([low[at], high[at], (low[at] >> 1) + (high[at] >> 1)], np.int64)
        own = np.concatenate([own[(own >= low[at]) & (own <= high[at])], ends])
        made[:half, at] = rng.choice(own, half)
    first = forms[0]
    shared = special_numbers(first)
    ends_of_first = first.value_of(np.array([low[0], high[0]]))
    inside = shared[(shared >= ends_of_first[0]) & (shared <= ends_of_first[1])]
    middle = (ends_of_first.astype(np.float64).sum() / 2) if np.isfinite(ends_of_first.astype(np.float64).sum()) else 0
    base = rng.choice(np.concatenate([inside, ends_of_first, [middle]]), rows - half)
    for at, form in enumerate(forms):
        own_base = np.clip(np.asarray(base, np.float64), -form.largest, form.largest)
        made[half:, at] = form.ordinal_of(form.round(own_base)) + rng.integers(-2, 3, rows - half)
    if len(set(forms)) == 1:  # some rows of one value exactly
        made[half : half + half // 8] = made[half : half + half // 8, :1]
    return np.clip(made, low, high)
