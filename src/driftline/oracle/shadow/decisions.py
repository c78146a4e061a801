"""Operations at which a rounding error can decide: steps (floor, comparisons, casts to integers) and choices (argmax,
topk, sort).

A step may legally fall to either side while its argument lies within a few sigma of the edge. A choice need not equal
the reference's choice, but must be *valid*: the values at the chosen indices are as good as those at the reference's.
The front ends know which operations decide; this module defines what is legal for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftline.core.tensors import Array

REACH = 8.0  # how many sigma a legal argument may lie from the reference's
EXTREMES = 3  # runs that push all deciding arguments up, down, and then to zero if within reach
FAR = 4.0  # an argument further than this many reaches from the edge decides nothing
SHUFFLES = 6  # runs that push each argument at random
MOST_PLACES = 64  # indices of a choice that are tried one by one
DRAWN = 12  # further runs with random indices
OTHER_PLACES = "the chosen places differ"  # the reason for a choice among integers, where no other is as good


@dataclass(frozen=True)
class Order:
    """Distinct values for open elements, in falling, rising or random order, so that operations that compare these
    elements or choose among them give other results. Operations with open elements are ordered among each other too."""

    number: int

    def numbers(self, dtype: np.dtype[Any], shape: tuple[int, ...], turn: int, turns: int) -> Array:
        """Return values of `dtype`, distinct as far as its range allows, for operation number `turn` of `turns`."""
        size = math.prod(shape)
        if dtype.kind == "b":
            return np.asarray((np.arange(size) + turn + self.number) % 2 == 0).reshape(shape)
        limits = np.iinfo(dtype if dtype.kind in "iu" else np.int32)
        low, high = max(int(limits.min), -(2**61)), min(int(limits.max), 2**61)
        if self.number > 1:
            ranks = np.random.default_rng((self.number, turn)).permutation(size)
            room, start = high - low, low
        else:
            ranks = np.arange(size) if self.number else np.arange(size)[::-1]
            room = max((high - low) // turns, 1)
            start = low + room * (turn if self.number else turns - 1 - turn)
        values = start + ranks * max(room // max(size, 1), 1) % room
        return np.asarray(values.reshape(shape).astype(dtype))


ORDERS = tuple(Order(number) for number in range(8))
FEW_ORDERS = ORDERS[:3]  # for graphs without choices


@dataclass
class DecidingArgument:
    """A float argument of a deciding operation: its value in the reference run, and how far rounding moved it. `own` is
    the error of the operation itself before it decides, such as the division in a quantisation."""

    reference: Array
    squares: Array
    own: Array | float = 0.0
    runs: int = 0
    unsettled: Array | bool = False  # elements that rounding makes finite or not, or that change sign at infinity

    @property
    def sigma(self) -> Array:
        """The rms movement of each element; infinite where rounding decides whether the element is finite."""
        moved = np.sqrt(self.squares / max(self.runs, 1) + np.square(self.own))
        return np.where(self.unsettled, np.inf, moved) if np.any(self.unsettled) else moved

    def observe(self, value: Array) -> None:
        """Add the value of a noisy run to the statistics."""
        with np.errstate(all="ignore"):
            moved = np.abs(value - self.reference)
        self.squares += np.square(np.where(np.isfinite(moved), moved, 0.0))
        self.runs += 1
        if not np.isfinite(moved.sum()):
            opposite = np.isinf(value) & (value == -self.reference)
            self.unsettled = self.unsettled | opposite | (np.isfinite(value) != np.isfinite(self.reference))


@dataclass
class Decision:
    """The observed values of one deciding operation; its float arguments are keyed by position."""

    arguments: dict[int, DecidingArgument] = field(default_factory=dict)
    edge: float | None = None  # the number that the argument is compared with, if known

    @property
    def open(self) -> bool:
        """True if rounding moved an argument here, and close enough to the edge where the edge is known. The softmax of
        attention compares with minus infinity, and softplus with 20; pushing values far from these edges would change
        nothing."""
        return any(bool(np.any(self._moved(argument))) for argument in self.arguments.values())

    def _moved(self, argument: DecidingArgument) -> Array:
        sigma = argument.sigma
        if self.edge is None:
            return sigma
        with np.errstate(all="ignore"):
            near = np.abs(argument.reference - self.edge) <= FAR * REACH * sigma
        return np.asarray((sigma > 0) & near)

    def observe_reference(self, values: Mapping[int, Array], own: Mapping[int, Array] | None = None) -> None:
        """Record the arguments of the reference run; `own` are the operation's own errors, by position."""
        for position, value in values.items():
            self.arguments[position] = DecidingArgument(
                np.array(value), np.zeros(value.shape), (own or {}).get(position, 0.0)
            )

    def observe(self, values: Mapping[int, Array]) -> None:
        """Add the arguments of a noisy run to the statistics."""
        for position, argument in self.arguments.items():
            if position not in values or values[position].shape != argument.reference.shape:
                continue  # a step changed the shape: nothing to compare
            argument.observe(values[position])

    def pushed(self, values: Mapping[int, Array], run: int, random: np.random.Generator) -> dict[int, Array]:
        """Return the arguments moved as far as is legal: all in one direction in the first runs, each at random in
        later runs."""
        moved = {}
        for order, (position, argument) in enumerate(self.arguments.items()):
            if position not in values or values[position].shape != argument.reference.shape:
                continue
            reach = np.where(argument.unsettled, 0.0, REACH * argument.sigma)
            if run == EXTREMES - 1:
                moved[position] = np.where(reach >= np.abs(values[position]), 0.0, values[position])
                continue
            if run < EXTREMES:
                signs: Array | float = 1.0 if (run + order) % 2 == 0 else -1.0
            else:
                signs = random.integers(0, 2, reach.shape) * 2 - 1
            pushed = np.asarray(values[position] + signs * reach)
            # rounding does not make finite numbers infinite
            moved[position] = np.where(np.isinf(pushed), values[position], pushed)
        return moved


def choice_problem(
    argument: DecidingArgument | None,
    axis: int | None,
    expected: Array,
    chosen: Array,
    *,
    distinct: bool = True,
    in_order: bool = True,
    first_wins: bool = False,
    wanted: Array | None = None,
) -> str:
    """Return why the choice `chosen` along `axis` (or over the whole tensor) is not valid, or an empty string if it is.

    `distinct`: no index may be taken twice. `in_order`: the order of the chosen indices matters. `first_wins`: of equal
    values that rounding does not move, the one that the specification names must be taken. `wanted`: the correct
    values, where they are known better than their indices.
    """
    if argument is None:
        return "" if np.array_equal(expected, chosen) else OTHER_PLACES
    values, sigma = argument.reference, argument.sigma
    if values.ndim == 0 or axis is None:
        values, sigma, axis = values.reshape(-1), sigma.reshape(-1), 0
        expected, chosen = expected.reshape(-1), chosen.reshape(-1)
    axis %= values.ndim
    if chosen.size and (int(chosen.min()) < 0 or int(chosen.max()) >= values.shape[axis]):
        return "an index is out of range"
    keep = expected.ndim == values.ndim
    places = [t if keep else np.expand_dims(t, axis) for t in (expected, chosen)]
    if not in_order:
        places = [_by_value(values, p, axis) for p in places]
    taken = np.take_along_axis(values, places[1], axis)
    wanted = np.take_along_axis(values, places[0], axis) if wanted is None else wanted.reshape(taken.shape)
    moves = [np.take_along_axis(sigma, p, axis) for p in places]
    with np.errstate(all="ignore"):
        close = np.abs(wanted - taken) <= REACH * (moves[0] + moves[1])
    close |= np.isinf(sigma).any(axis=axis, keepdims=True)  # an element without limits may be chosen anywhere
    bad = ~(close | (np.isnan(wanted) & np.isnan(taken)) | (wanted == taken))
    if bad.any():
        place = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
        return f"at {place} it chose a value of {float(taken[place]):.6g} where {float(wanted[place]):.6g} is right"
    if first_wins and in_order:
        bad = (places[0] != places[1]) & (moves[0] == 0) & (moves[1] == 0) & ~np.isinf(sigma).any(axis, keepdims=True)
        if bad.any():
            place = tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
            return f"at {place} it chose place {places[1][place]} of equal values where {places[0][place]} is specified"
    if distinct and keep and chosen.shape[axis] > 1 and bool((np.diff(np.sort(chosen, axis), axis=axis) == 0).any()):
        return "it chose the same place twice"
    return ""


def other_places(shape: tuple[int, ...], places: int, run: int) -> Array:
    """Return alternative choices among `places` indices, for runs that show which outputs depend on a choice.

    In the first runs each element takes every index in turn, for operations that compare a choice with one index. In
    later runs all are drawn at random, for operations that add choices up.
    """
    if run < places:
        return np.asarray((np.random.default_rng(0).integers(0, places, shape) + run) % places)
    return np.asarray(np.random.default_rng(run).integers(0, places, shape))


def choice_runs(places: int) -> range:
    """Return the numbers of the runs needed for choices among at most `places` indices; empty if `places` is 0."""
    return range(min(places, MOST_PLACES) + DRAWN) if places else range(0)


def touched(mask: Array, axis: int | None, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Return, for each result shape, a mask of the elements that depend on the marked elements. `mask` marks elements
    of an argument or of the choice itself; along the axis of a choice, one marked element affects all others."""
    if axis is not None and mask.ndim:
        mask = np.asarray(mask.any(axis=axis, keepdims=True))
        if any(len(shape) < mask.ndim for shape in shapes):
            mask = mask.squeeze(axis)
    return [_broadcast(mask, shape) for shape in shapes]


def _broadcast(mask: Array, shape: tuple[int, ...]) -> Array:
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:  # the operation changes shapes: assume that all depends on all
        return np.ones(shape, dtype=bool)


def _by_value(values: Array, places: Array, axis: int) -> Array:
    order = np.argsort(np.take_along_axis(values, places, axis), axis=axis, kind="stable")
    return np.take_along_axis(places, order, axis)
