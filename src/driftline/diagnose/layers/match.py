"""Match values of two programs: the reference, and the file that runs.

Values are matched by name, which exporters and optimisers of ONNX keep and torch.onnx takes from the torch graph;
otherwise by the last value of each module that both programs name; otherwise by position, if the shapes along the two
graphs are alike.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from driftline.core.tensors import ANY_SIZE
from driftline.programs.taps.tap import Tap

WRAPPED = range(4)  # leading names of modules that one program may have more than the other
ENOUGH = 0.25  # of the values of the smaller program, to go without a weaker way of matching


@dataclass(frozen=True)
class Pair:
    """A value of the reference and the same value in the program that runs. `number` counts along the reference."""

    number: int
    tap: Tap
    run: Tap
    surely: bool = True  # matched by name


def same_program(taps: Sequence[Tap]) -> list[Pair]:
    return [Pair(number, tap, tap) for number, tap in enumerate(tap for tap in taps if not tap.returned)]


def matched(reference: Sequence[Tap], runs: Sequence[Tap]) -> tuple[list[Pair], str]:
    """Return the pairs in the order of the reference, and how they were found. Results of the programs are left out and
    not counted, since they are shown anyway.
    """
    pairs, how = _matched(reference, runs)
    results = [number for number, tap in enumerate(reference) if tap.returned]
    kept = [pair for pair in pairs if not pair.tap.returned and not pair.run.returned]
    return [replace(pair, number=pair.number - bisect(results, pair.number)) for pair in kept], how


def _matched(reference: Sequence[Tap], runs: Sequence[Tap]) -> tuple[list[Pair], str]:
    numbered = list(enumerate(reference))
    enough = max(1, int(ENOUGH * min(len(reference), len(runs))))
    named = {tap.value: tap for tap in runs}
    pairs = [Pair(n, tap, named[tap.value]) for n, tap in numbered if _alike(tap, named.get(tap.value))]
    if len(pairs) >= enough:
        return _in_order(pairs), "by the names of the values"
    by_module = _by_module(reference, runs)
    if len(by_module) >= max(2, len(pairs)):
        return _in_order(by_module), "by the modules that both name"
    by_shape = _by_shape(reference, runs)
    if len(by_shape) > len(pairs):
        return by_shape, "by position and shape"
    return _in_order(pairs), "by the names of the values"


def _by_module(reference: Sequence[Tap], runs: Sequence[Tap]) -> list[Pair]:
    """Match the last values of each module. One program may be wrapped in further modules, so leading names are dropped
    such that as many modules as possible agree.
    """
    ours, its = max(
        ((_last_of(reference, one), _last_of(runs, other)) for one in WRAPPED for other in WRAPPED if not one * other),
        key=lambda both: len(both[0].keys() & both[1].keys()),
    )
    found = {}
    for scope, (number, tap) in ours.items():
        other = its.get(scope)
        if other and _alike(tap, other[1]):
            found[number] = Pair(number, tap, other[1], surely=False)
    return [found[number] for number in sorted(found)]


def _last_of(taps: Sequence[Tap], wrapped: int) -> dict[str, tuple[int, Tap]]:
    """Return the last value in each module, by the module's path without its leading `wrapped` names."""
    found: dict[str, tuple[int, Tap]] = {}
    for number, tap in enumerate(taps):
        parts = tap.scope.split(".")[wrapped:] if tap.scope else []
        for length in range(1, len(parts) + 1):
            found[".".join(parts[:length])] = number, tap
    return found


def _by_shape(reference: Sequence[Tap], runs: Sequence[Tap]) -> list[Pair]:
    matcher = SequenceMatcher(None, [t.shape for t in reference], [t.shape for t in runs], autojunk=False)
    return [
        Pair(begin + at, reference[begin + at], runs[other + at], surely=False)
        for begin, other, length in matcher.get_matching_blocks()
        for at in range(length)
    ]


def _alike(one: Tap, other: Tap | None) -> bool:
    if other is None or len(one.shape) != len(other.shape):
        return False
    return all(a == b or ANY_SIZE in (a, b) for a, b in zip(one.shape, other.shape, strict=True))


def _in_order(pairs: list[Pair]) -> list[Pair]:
    """Drop pairs whose values stand in another order in the program that runs: their names are the same by chance."""
    kept: list[Pair] = []
    for pair in pairs:
        if not kept or pair.surely or pair.run.position > kept[-1].run.position:
            kept.append(pair)
    return kept
