"""Compare two recordings of a script, fact by fact. Values that rounding may move are only listed; the oracle judges
them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from driftline.core.tensors import Array, is_float
from driftline.scenarios.difference import SHARING, Change, Difference, elements, moment
from driftline.scenarios.recording import END, Fact, Raised, ScriptEvent, ScriptRecording, TensorSeen

FEW_ROUNDINGS = 2.0  # differences up to this many roundings are not judged
OF_MOVEMENT = 1.0  # nor up to this factor times the movement in the run with rounding noise
SAME_NUMBER = 1e-4  # relative tolerance for Python floats, which may come from tensors of any precision
MOST_NUMBER_MOVEMENT = 8.0


@dataclass(frozen=True)
class Stable:
    """The facts of one event that are the same in all eager runs, and can therefore be compared."""

    eager: ScriptEvent
    again: ScriptEvent
    rounded: ScriptEvent | None  # `None` if that run took another path

    def holds(self, path: str) -> bool:
        """True if fresh memory, time and rounding do not change this fact, except for the numbers in it."""
        if self.varies(path):
            return False
        fact = self.eager.facts.get(path)
        return self.rounded is None or _skeleton(fact) == _skeleton(self.rounded.facts.get(path))

    def varies(self, path: str) -> bool:
        """True if the fact differs between the two eager runs, which differ in fresh memory and time."""
        return _without_place(self.eager.facts.get(path)) != _without_place(self.again.facts.get(path))

    @property
    def raises(self) -> bool:
        """True if the exception is the same in all eager runs."""
        runs = [self.eager, self.again, *([self.rounded] if self.rounded else [])]
        return len({one.raised.name if one.raised else "" for one in runs}) == 1

    @property
    def shares(self) -> frozenset[tuple[str, str]]:
        """The pairs of overlapping tensors that differ between the eager runs."""
        return frozenset(self.eager.shared) ^ frozenset(self.again.shared)


def _skeleton(fact: Fact | None) -> object:
    """Return a fact without the parts that rounding changes."""
    if fact is None:
        return None
    if fact.tensor is not None and _rounds(fact.tensor):
        return replace(fact.tensor, at=0, digest="")
    return (fact.text, fact.size, fact.tensor and replace(fact.tensor, at=0))


def _rounds(tensor: TensorSeen) -> bool:
    return is_float(tensor.dtype) or tensor.dtype.startswith("complex")


@dataclass(frozen=True)
class ComparedEvent:
    """The differences of one event. `values` are the paths of tensors whose numbers differ by more than a few
    roundings; `same_bits` is true if nothing differs at all."""

    found: tuple[Difference, ...] = ()
    values: tuple[str, ...] = ()
    same_bits: bool = True

    @property
    def agrees(self) -> bool:
        """True if no difference was found and no value needs to be judged."""
        return not self.found and not self.values


class RunComparison:
    """The eager recordings and the compiled one, compared event by event."""

    def __init__(
        self, eager: ScriptRecording, again: ScriptRecording, rounded: ScriptRecording, compiled: ScriptRecording
    ) -> None:
        self.eager, self.again, self.rounded, self.compiled = eager, again, rounded, compiled

    def stable(self, number: int) -> Stable | None:
        """Return the facts that eager runs agree on at an event, or `None` if the eager runs themselves took different
        paths."""
        one, other = self.eager.events[number], _at(self.again, number)
        if other is None or (one.kind, one.name) != (other.kind, other.name):
            return None
        rounded = _at(self.rounded, number)
        if rounded is None or (rounded.kind, rounded.name) != (one.kind, one.name) or _noise_failed(one, rounded):
            return Stable(one, other, None)
        return Stable(one, other, rounded)

    def event(self, number: int, stable: Stable) -> ComparedEvent:
        """Compare one event of the compiled run with the eager one."""
        got = self.compiled.events[number]
        return compare_event(self.eager, stable.eager, self.compiled, got, stable, self.rounded)


def _noise_failed(one: ScriptEvent, rounded: ScriptEvent) -> bool:
    """True if only the run with rounding noise ends in an exception of torch, parts of which do not support the noise.
    An exception raised by the script itself may depend on rounding, so it does not count."""
    return rounded.raised is not None and one.raised is None and not rounded.raised.by_script


def compare_event(
    wanted: ScriptRecording,
    one: ScriptEvent,
    given: ScriptRecording,
    got: ScriptEvent,
    stable: Stable,
    rounded: ScriptRecording,
) -> ComparedEvent:
    """Compare `one`, an event of the recording `wanted` and the expected one, with `got`, an event of `given`.

    `one` may also come from an eager continuation of the compiled run, in place of the eager run.
    """
    at = _Moment(one, moment(one, wanted.events[: _place(wanted, one)] if len(wanted.events) > 1 else ()))
    if (one.kind, one.name) != (got.kind, got.name):
        return ComparedEvent((at.differs(Change.EVENTS, "", _titled(one), _titled(got)),), same_bits=False)
    if not (one.judged and got.judged):
        return ComparedEvent(same_bits=False)
    if one.raised or got.raised:
        told = _raised(at, one.raised, got.raised) if stable.raises else ()
        return ComparedEvent(told, same_bits=not told)
    found: list[Difference] = []
    values: list[str] = []
    same_bits = True
    for path in dict.fromkeys((*one.facts, *got.facts)):
        expected, came = one.facts.get(path), got.facts.get(path)
        if _agrees(one, expected, came, given, path) or stable.varies(path):
            continue
        same_bits &= not _of_numbers(expected, came)
        if not stable.holds(path) or any(_is_below(path, other.path) for other in found):
            continue
        if _of_numbers(expected, came):
            moved = stable.rounded.facts.get(path) if stable.rounded else None
            if _far(wanted, expected, given, came, rounded, moved):
                found += _number(at, path, expected, came)
                values += [path] if expected and expected.tensor else []
            continue
        found.append(_difference(at, path, expected, came))
    found += _sharing(at, one, got, stable)
    return ComparedEvent(tuple(found), tuple(values), same_bits)


def _place(recording: ScriptRecording, event: ScriptEvent) -> int:
    return next(place for place, one in enumerate(recording.events) if one.number == event.number)


def _at(recording: ScriptRecording, number: int) -> ScriptEvent | None:
    return recording.events[number] if number < len(recording.events) else None


def _titled(event: ScriptEvent) -> str:
    return "its end" if event.kind == END else f"{event.kind} {event.name}".strip()


@dataclass(frozen=True)
class _Moment:
    event: ScriptEvent
    when: str

    def differs(self, change: Change, path: str, expected: str, got: str) -> Difference:
        return Difference(change, self.event.number, self.event.kind, self.when, path, expected, got)

    def raises(self, change: Change, expected: Raised | None, got: Raised | None) -> Difference:
        told = self.differs(change, "", str(expected or ""), str(got or ""))
        return replace(told, raised=got or expected)


def _raised(at: _Moment, expected: Raised | None, got: Raised | None) -> tuple[Difference, ...]:
    """Return the difference in exceptions: raised on one side only, or of another class where the script itself
    raises."""
    if expected is None:
        return (at.raises(Change.ERROR, None, got),)
    if got is None:
        return (at.raises(Change.MISSING_ERROR, expected, None),)
    caught_alike = expected.name in got.bases or got.by_compiler
    if caught_alike or not expected.by_script:  # exception classes of operators are not promised
        return ()
    return (at.raises(Change.OTHER_ERROR, expected, got),)


def _without_place(fact: Fact | None) -> Fact | None:
    """Return a fact without the position of its bytes in the file, which differs between runs."""
    if fact is None or fact.tensor is None:
        return fact
    return replace(fact, tensor=replace(fact.tensor, at=min(fact.tensor.at, 0)))


def _of_numbers(expected: Fact | None, got: Fact | None) -> bool:
    """True if two facts differ in their numbers alone."""
    if expected is None or got is None:
        return False
    if expected.number and got.number:
        return True
    one, other = expected.tensor, got.tensor
    return bool(one and other and replace(one, at=0, digest="") == replace(other, at=0, digest=""))


def _is_zero_gradient(recording: ScriptRecording, path: str, got: Fact | None) -> bool:
    """True for a gradient of zeros. The gradient of a branch that was not taken may be zeros or `None`."""
    tensor = got.tensor if got and path.endswith(".grad") else None
    return tensor is not None and tensor.readable and not recording.content(tensor).any()


def _agrees(one: ScriptEvent, expected: Fact | None, came: Fact | None, given: ScriptRecording, path: str) -> bool:
    return _is_same(expected, came) or (expected is None and one.plain and _is_zero_gradient(given, path, came))


def _is_same(expected: Fact | None, got: Fact | None) -> bool:
    return expected == got or _without_place(expected) == _without_place(got)


def _is_below(path: str, other: str) -> bool:
    return path.startswith(other) and path[len(other) : len(other) + 1] in (".", "[", "")


def _difference(at: _Moment, path: str, expected: Fact | None, got: Fact | None) -> Difference:
    if expected is None:
        return at.differs(Change.SURPLUS, path, "", _short(got))
    if got is None:
        return at.differs(Change.MISSING, path, _short(expected), "")
    if expected.tensor and got.tensor:
        return _property(at, path, expected.tensor, got.tensor)
    if "is " in (expected.text[:3], got.text[:3]):
        return at.differs(Change.IDENTITY, path, expected.text, got.text)
    if path.startswith("random state"):
        return at.differs(Change.RANDOM, path, "", "")
    if path.startswith("mode "):
        return at.differs(Change.MODE, path, expected.text, got.text)
    if expected.size >= 0 and got.size >= 0 and expected.size != got.size:
        return at.differs(Change.SIZE, path, f"{expected.size:,}", elements(got.size))
    plain = _is_plain(expected) or _is_plain(got) or (expected.size >= 0 and got.size >= 0)
    return at.differs(Change.CONTENTS if plain else Change.CLASS, path, _short(expected), _short(got))


_LITERAL = re.compile(r"[-\d'\"(<]|True|False|None|b['\"]")


def _is_plain(fact: Fact) -> bool:
    """True for a value that is written as a literal."""
    return fact.tensor is None and (
        bool(fact.number) or bool(re.match(r"[-\d'\"(<]|True|False|None|b['\"]", fact.text))
    )


_PROPERTIES = (
    ("dtype", Change.DTYPE),
    ("shape", Change.SHAPE),
    ("requires_grad", Change.REQUIRES_GRAD),
    ("kind", Change.CLASS),
    ("device", Change.DEVICE),
    ("layout", Change.LAYOUT),
)


def _property(at: _Moment, path: str, expected: TensorSeen, got: TensorSeen) -> Difference:
    for name, change in _PROPERTIES:
        one, other = getattr(expected, name), getattr(got, name)
        if one != other:
            shown = (str(list(one)), str(list(other))) if name == "shape" else (str(one), str(other))
            return at.differs(change, path, *shown)
    return at.differs(Change.VALUE, path, "numbers that can be read", "numbers that cannot be read")


def _short(fact: Fact | None) -> str:
    if fact is None:
        return "nothing"
    if fact.tensor:
        return f"a tensor of {fact.tensor.dtype}{list(fact.tensor.shape)}"
    if fact.size >= 0:
        return f"{fact.text} ({elements(fact.size)})"
    return fact.number or fact.text


def _number(at: _Moment, path: str, expected: Fact | None, got: Fact | None) -> list[Difference]:
    """Return the difference of two Python floats. Tensors return no difference here, because the oracle judges them."""
    if expected is None or got is None or expected.tensor:
        return []
    return [at.differs(Change.VALUE, path, expected.number, got.number)]


def _sharing(at: _Moment, one: ScriptEvent, got: ScriptEvent, stable: Stable) -> list[Difference]:
    """Return the pairs of tensors that overlap in memory on one side only, among tensors that exist on both sides."""
    skipped = stable.shares
    known = one.facts.keys() & got.facts.keys()
    found = []
    for change, pairs in (
        (Change.SHARING_LOST, [pair for pair in one.shared if pair not in set(got.shared)]),
        (Change.SHARING_MADE, [pair for pair in got.shared if pair not in set(one.shared)]),
    ):
        for pair in pairs:
            tensors = all(path in known and one.facts[path].tensor and got.facts[path].tensor for path in pair)
            if tensors and pair not in skipped:
                found.append(at.differs(change, SHARING.join(pair), "", ""))
    return found


def _far(
    wanted: ScriptRecording,
    expected: Fact | None,
    given: ScriptRecording,
    got: Fact | None,
    rounded: ScriptRecording,
    moved: Fact | None,
) -> bool:
    """True if the numbers differ by more than a few roundings and by more than they move in the run with rounding
    noise."""
    assert expected and got
    if expected.tensor is None or got.tensor is None:
        return _far_numbers(float(expected.number), float(got.number), moved)
    if not (expected.tensor.readable and got.tensor.readable):
        return False
    one, other = wanted.content(expected.tensor), given.content(got.tensor)
    if not _rounds(expected.tensor):
        return True
    noisy = moved and moved.tensor and moved.tensor.readable and moved.tensor.shape == expected.tensor.shape
    return far_apart(one, other, rounded.content(moved.tensor) if noisy and moved and moved.tensor else None)


def _far_numbers(one: float, other: float, moved: Fact | None) -> bool:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return False
    noise = abs(float(moved.number) - one) if moved and moved.number else 0.0
    if not (math.isfinite(one) and math.isfinite(other)):
        return math.isfinite(noise)
    return abs(one - other) > SAME_NUMBER * max(abs(one), abs(other)) + MOST_NUMBER_MOVEMENT * noise


def far_apart(one: Array, other: Array, noisy: Array | None) -> bool:
    """True if any number differs by more than a few roundings plus the largest movement in the run with rounding
    noise."""
    import ml_dtypes

    parts = one.dtype.kind == "c"
    eps = float(ml_dtypes.finfo(one.real.dtype if parts else one.dtype).eps)
    wide = np.complex128 if parts else np.float64
    with np.errstate(all="ignore"):
        first, second = one.astype(wide), other.astype(wide)
        gap = np.abs(first - second)
        movement = np.abs(noisy.astype(wide) - first) if noisy is not None else np.zeros(one.shape)
        most = float(np.nanmax(movement, initial=0.0)) if movement.size else 0.0
        close = gap <= FEW_ROUNDINGS * eps * np.abs(first) + OF_MOVEMENT * (most if math.isfinite(most) else 0.0)
        same = (first == second) | (np.isnan(first) & np.isnan(second))
    return not bool(np.all(close | same))


_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|\bnan\b|\binf\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+|grad_fn=<\w+>")


def printed_difference(eager: str, again: str, compiled: str) -> tuple[str, str] | None:
    """Return the first printed line whose words differ, as (eager, compiled), or `None`. Numbers are ignored, because
    rounding may change them."""
    if eager != again:
        return None
    one, other = (_lines(text) for text in (eager, compiled))
    for first, second in zip(one, other, strict=False):
        if _words(first) != _words(second):
            return repr(first[:120]), repr(second[:120])
    if len(one) != len(other):
        return f"{len(one)} lines", f"{len(other)} lines"
    return None


def _lines(text: str) -> Sequence[str]:
    return [line for line in text.splitlines() if line.strip()]


def _words(line: str) -> str:
    return _NUMBER.sub("#", _ADDRESS.sub("", line)).replace(" ", "")
