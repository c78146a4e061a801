"""Sums up a turn of a lane: counts its programs, rewards its generators, and keeps its new graphs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from driftline.checking.batch import Screened
from driftline.checking.refusals import rejection_key
from driftline.core.text import normalise_message
from driftline.generate.graph import Graph
from driftline.store.hunts import SlowProgram, TurnBody

NEAR_MISS = 5.0  # sigma: passed, but narrowly
SLOW = 2.0  # seconds for one step of a program, from which on the program is listed as slow
SLOWEST = 3  # slow programs that are listed for one turn
INTERESTING = 6  # graphs kept from one turn
_BY_CHANCE = ("timeout", "out-of-memory")


@dataclass
class Arm:
    """One choice that a generator offers, such as an operator: how often it was asked for, and its total reward."""

    programs: int = 0
    reward: float = 0.0


@dataclass
class TurnSummary:
    """Adds up the results of a turn. The lane has seen `known` operators with dtypes, `seen` failures and rules, and
    `met` pairs of operators before."""

    known: Set[str]
    seen: Set[str]
    met: Set[str]
    counts: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    coverage: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    arms: dict[tuple[str, str], Arm] = field(default_factory=lambda: defaultdict(Arm))
    interesting: list[Graph] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    pairs: set[str] = field(default_factory=set)
    features: Counter[str] = field(default_factory=Counter)

    def add(self, result: Screened) -> None:
        """Count one program, and reward the arm that made it."""
        arm = self.arms[(result.request.generator, result.request.arm)]
        arm.programs += 1
        self.counts[result.judgement] += 1
        if result.kind in _BY_CHANCE:  # depends on the load of the machine, which must not change the next requests
            return
        if result.judgement not in ("pass", "fail"):
            self.reasons[result.judgement][rejection_key(result.reason)] += 1
        fresh = self._cover(result)
        new = self._is_new(result)
        rules = {f"rule {name}" for name in result.behaviour} - self.seen - self.keys
        self.keys |= rules
        met = self._meet(result)
        passed = result.judgement == "pass"
        arm.reward += 1.0 if new else 0.3 if rules else 0.1 if passed and fresh else 0.05 if met else 0.0
        near = passed and result.z > NEAR_MISS
        if (new or near or rules) and result.made and result.made.graph and len(self.interesting) < INTERESTING:
            self.interesting.append(result.made.graph)

    def _cover(self, result: Screened) -> bool:
        """Count the operators of a program by dtype; True if the lane has not seen one of them."""
        # The dtypes of a model's text are not known: it counts for no single operator.
        covered = result.coverage if not result.request.text or (result.made and result.made.graph_text) else ()
        if result.judgement != "rejected" or len(set(covered)) == 1:  # with several, the refused one is not known
            for op, dtype in set(covered):
                self.coverage[f"{op} {dtype}"][result.judgement] += 1
        return any(f"{op} {dtype}" not in self.known for op, dtype in covered)

    def _is_new(self, result: Screened) -> bool:
        """Note the failure of a program; True if it was not seen before."""
        key = failure_key(result)
        new = bool(key) and key not in self.seen and key not in self.keys
        if new:
            self.keys.add(key)
        return new

    def _meet(self, result: Screened) -> bool:
        """Note the features and pairs of a program that ran; True if a pair was not met before."""
        if not result.made or result.judgement not in ("pass", "fail"):
            return False
        self.features.update(f"{result.request.generator}: {feature}" for feature in result.made.features)
        met = set(result.made.pairs) - self.met - self.pairs
        self.pairs |= met
        return bool(met)

    def body(self, results: Sequence[Screened], seconds: float) -> TurnBody:
        """Return the summary as stored."""
        return TurnBody(
            programs=len(results),
            seconds=round(seconds, 3),
            counts=dict(self.counts),
            reasons={judgement: dict(found.most_common(12)) for judgement, found in self.reasons.items()},
            coverage={pair: dict(found) for pair, found in self.coverage.items()},
            arms=tuple(
                (generator, name, arm.programs, round(arm.reward, 2)) for (generator, name), arm in self.arms.items()
            ),
            interesting=tuple(graph.to_json() for graph in self.interesting),
            keys=tuple(sorted(self.keys)),
            pairs=tuple(sorted(self.pairs)),
            features=dict(self.features),
            slowest=_slowest(results),
        )


def failure_key(result: Screened) -> str:
    """Return the key of a program's failure before it is examined; an empty string if the program does not fail."""
    if result.judgement != "fail":
        return ""
    if result.kind in ("error", "crash", "timeout", "out-of-memory"):
        return f"{result.kind} {result.stage} {normalise_message(result.reason)[:200]}"
    about = result.request.arm
    # With these generators, the arm does not name the operators.
    if result.request.generator in ("mutate", "llm", "chains") or about == "pairs":
        about = " ".join(sorted({operator for operator, _ in result.coverage}))
    return f"{result.kind} {about}"


def _slowest(results: Sequence[Screened]) -> tuple[SlowProgram, ...]:
    slow = [
        SlowProgram(round(seconds, 1), step, result.request.generator, result.request.arm, result.request.number,
                    result.judgement)
        for result in results
        for step, seconds in result.seconds.items()
        if seconds >= SLOW
    ]  # fmt: skip
    return tuple(sorted(slow, key=lambda one: -one.seconds)[:SLOWEST])
