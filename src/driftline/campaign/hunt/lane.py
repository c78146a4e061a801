"""A lane: the programs of one target, turn after turn, and what was learnt from them.

What the next turn asks for depends on the seed and on the turns before it in the same lane, and on nothing else: not
on the clock, not on other lanes. So the same seed gives the same programs, and a lane that is rebuilt from its stored
turns goes on as if it had never stopped. The clock may cut the last turns of a hunt short, and nothing else.
Several turns may be in hand at once: `pipeline.py` says which earlier ones a turn knows.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from driftline.campaign.hunt.lane_arms import LaneArms
from driftline.campaign.hunt.shard import WHOLE, Shard
from driftline.campaign.hunt.turn_summary import Arm, TurnSummary
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import ProgramRequest
from driftline.core.target import Target
from driftline.generate.graph import Graph
from driftline.generate.lone_operators import ALONE
from driftline.store.hunts import Turn, TurnBody

FLOOR = 0.08  # the share of every generator, whatever it brings
FORGETTING = 0.9  # what a turn counts in the next one: a generator that brings nothing any more loses its share
FIRST_TIME = 0.5  # the share of operators alone until each was tried once
SYSTEMATIC = 0.25  # and after that, until each was tried in every way
KEPT_GRAPHS = 48
RECENT = 8  # turns by which it is told how long the next one will take
SOLVED_EVERY = 8
IN_A_ROW = 5  # programs about one arm, of a generator that takes its time over each
PROMPT = 3  # turns without generators that are slow to start, so that something is judged as soon as a compiler is warm
FIRST = 4  # programs of the first turn; each later one has twice as many as the one before, up to a batch


@dataclass
class Worth:
    """What a generator brought of late: programs and rewards, each counting less with every turn."""

    programs: float = 0.0
    reward: float = 0.0


@dataclass
class Lane:
    """The state of one target in a hunt."""

    target: Target
    form: str
    seed: int
    batch: int
    arms: Mapping[str, Sequence[str]]  # generator -> its arms
    alone: Mapping[str, int]  # operator -> in how many ways it is tried alone
    strategies: Sequence[str]
    needs_base: frozenset[str] = frozenset()
    focused: frozenset[str] = frozenset()  # generators that stay with an arm for a few programs
    shard: Shard = WHOLE
    late: frozenset[str] = frozenset()  # generators that are slow to start
    closed: set[str] = field(default_factory=set)  # generators that make no more programs
    failures: int = 0  # turns that were lost by a fault of ours
    turns: int = 0
    programs: int = 0
    seconds: float = 0.0
    paces: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RECENT))  # seconds, programs
    stats: dict[tuple[str, str], Arm] = field(default_factory=lambda: defaultdict(Arm))
    asked_of: Counter[str] = field(default_factory=Counter)  # programs by generator
    coverage: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    graphs: deque[Graph] = field(default_factory=lambda: deque(maxlen=KEPT_GRAPHS))
    seen: set[str] = field(default_factory=set)
    pairs: set[str] = field(default_factory=set)  # operators that met: "one>other"
    recent: dict[str, Worth] = field(default_factory=lambda: defaultdict(Worth))  # by generator
    rejections: Counter[str] = field(default_factory=Counter)  # what the compiler says it does not support

    @property
    def name(self) -> str:
        return str(self.target)

    @property
    def shortest(self) -> int:
        """Programs of the first turn, which is short so that something is judged as soon as a compiler is warm. The
        last turns of a hunt may be as short, to end with the time."""
        return min(FIRST, self.batch)

    @property
    def turn_size(self) -> int:
        """Programs of the next turn. It follows from the turn's number alone: a clock would give other programs each
        time."""
        return min(self.batch, FIRST << min(self.turns, 16))

    def timed(self, number: int, seconds: float, programs: int) -> None:
        """A turn took so long, whether those before it are done or not. The clock may cut the last turns short, and
        this says how much; it has no other part in what is asked for."""
        if programs and number:  # in the first one the compiler is started
            self.paces.append((seconds, programs))

    @property
    def pace(self) -> float:
        """Seconds for a program, over the last turns that ended; 0 when there was none."""
        programs = sum(count for _, count in self.paces)
        return sum(seconds for seconds, _ in self.paces) / programs if programs else 0.0

    def seconds_for(self, programs: int) -> float:
        """What a turn of so many programs will take, by the last ones."""
        return self.pace * programs

    def done_in(self, seconds: float) -> int:
        """Programs that will be done by then, but a short turn at least."""
        return max(self.shortest, int(seconds / self.pace)) if self.pace and math.isfinite(seconds) else self.batch

    @property
    def exhausted(self) -> bool:
        """Is there no generator left that makes new programs?"""
        return not set(self._left) - self.needs_base and not self._untried()

    @property
    def unlisted(self) -> bool:
        """Has the next turn to wait until somebody says what the generators with a slow start can be asked for?"""
        return self.turns >= PROMPT and isinstance(self.arms, LaneArms) and not self.arms.complete

    def list_arms(self) -> None:
        """Wait for it, for seconds."""
        if isinstance(self.arms, LaneArms):
            self.arms.list_all()

    @property
    def _left(self) -> list[str]:
        """The generators that may make programs, now or later. Those that are slow to start are listed when they are
        needed, and may turn out to have no arms."""
        names = [name for name in self.arms if name not in self.closed and name != ALONE]
        return names if self._is_prompt else [name for name in names if name not in self.late or self.arms[name]]

    @property
    def _drawn(self) -> list[str]:
        """The generators that share what operators alone leave."""
        return [name for name in self._left if name not in self.late or not self._is_prompt]

    @property
    def _is_prompt(self) -> bool:
        """In the first turns generators that are slow to start make none, unless there would be nothing else."""
        prompt = set(self.arms) - self.closed - self.late - self.needs_base - {ALONE}
        return self.turns < PROMPT and bool(prompt or self._untried())

    def target_of(self, request: ProgramRequest) -> Target:
        """The target on which a program runs: some are about a rule that an option switches on."""
        return self.target.also(request.options)

    # -- what to ask for ---------------------------------------------------------------------------------------------

    def requests(self, limit: int) -> list[ProgramRequest]:
        """The next batch: operators alone that were not tried in every way, and beside them programs of all other
        generators, each by what it brought."""
        rng = random.Random(f"{self.shard.seeded(self.seed)}/{self.form}/{self.name}/{self.turns}")
        size, avoid = min(self.turn_size, limit), self.avoid
        bases = self._bases(frozenset(avoid))
        asked: Counter[tuple[str, str]] = Counter()
        made = [self._request(ALONE, arm, asked) for arm in self._lone(size, rng)]
        while len(made) < size and (generator := self._generator(rng, made, can_change=bool(bases))):
            request = self._request(generator, self._arm_after(made, generator, rng), asked)
            made.append(replace(request, base=rng.choice(bases)) if generator in self.needs_base else request)
        return [replace(request, avoid=tuple(avoid)) for request in made]

    def _bases(self, avoid: frozenset[str]) -> list[Graph]:
        """The graphs that may be changed further: those that can do anything but fail once more."""
        return [
            graph
            for graph in self.graphs
            if avoid.isdisjoint(f"{operator} {dtype}" for operator, dtype in graph.coverage)
        ]

    def _untried(self) -> list[str]:
        """Operators that were not tried alone in every way."""
        if ALONE in self.closed:
            return []
        tried = {arm: self.shard.numbered(self.stats[(ALONE, arm)].programs) for arm in self.arms.get(ALONE, ())}
        return [arm for arm, number in tried.items() if number < self.alone[arm]]

    def _lone(self, size: int, rng: random.Random) -> list[str]:
        """The operators that are tried alone in a turn, the least tried first: its share of them, or all of it where
        nothing else makes programs."""
        left = self._untried()
        rng.shuffle(left)
        left.sort(key=lambda arm: self.stats[(ALONE, arm)].programs)
        first_time = bool(left) and not self.stats[(ALONE, left[0])].programs
        others = set(self._drawn) - self.needs_base
        share = int(size * (FIRST_TIME if first_time else SYSTEMATIC))
        return left[: max(1, min(share, size - len(others))) if others else size]  # a short turn has room for each

    def _generator(self, rng: random.Random, made: Sequence[ProgramRequest], *, can_change: bool) -> str | None:
        """Each generator once, in any order; then Thompson sampling over them, with a floor."""
        names = [name for name in self._drawn if name not in self.needs_base or can_change]
        if not names:
            return None
        asked = {request.generator for request in made}
        if new := [name for name in names if not self.asked_of[name] and name not in asked]:
            return rng.choice(new)
        if rng.random() < FLOOR * len(names):
            return rng.choice(names)
        return max(names, key=lambda name: _sampled(self.recent[name], rng))

    def _arm(self, generator: str, rng: random.Random) -> str:
        """Thompson sampling over a handful of arms: the best of few leaves room for all."""
        arms = self.arms[generator]
        few = rng.sample(list(arms), min(len(arms), 4))
        return max(few, key=lambda arm: _sampled(self.stats[(generator, arm)], rng))

    def _arm_after(self, made: Sequence[ProgramRequest], generator: str, rng: random.Random) -> str:
        """The next arm; where a generator is focused, the last one until it had its share."""
        last = [request.arm for request in made if request.generator == generator]
        if generator in self.focused and last and last.count(last[-1]) % IN_A_ROW:
            return last[-1]
        return self._arm(generator, rng)

    def _request(self, generator: str, arm: str, asked: Counter[tuple[str, str]]) -> ProgramRequest:
        key = (generator, arm)
        number = self.shard.numbered(self.stats[key].programs + asked[key])
        asked[key] += 1
        if generator == "graph" and ALONE in self.arms:
            number += self.alone.get(arm, 0)  # its first programs are operators alone too
        inputs = self._strategies(number) if generator != ALONE else self._systematic(number)
        return ProgramRequest(generator, arm, number, inputs, seed=f"{self.seed}/{generator}/{arm}/{number}")

    def _systematic(self, number: int) -> tuple[str, ...]:
        """The samples of an operator alone: every other program sees ordinary numbers, a NaN and infinities, one call
        after another."""
        if number % 2 or not {"random", "specials"} <= set(self.strategies):
            return self._strategies(number)
        return "random", "nan", "infinities"

    def _strategies(self, number: int) -> tuple[str, str]:
        """Two samples for each program: one ordinary, one special; edges of the operators every third time. To solve
        takes longer than to run a small program: every eighth is enough."""
        ordinary = [name for name in self.strategies if name == "random"]
        if "symbolic" in self.strategies and ordinary and number % SOLVED_EVERY == SOLVED_EVERY - 1:
            return ordinary[0], "symbolic"
        special = [name for name in self.strategies if name not in ("random", "symbolic")]
        if not special or not ordinary:
            both = ordinary or special
            return both[number % len(both)], both[(number + 1) % len(both)]
        if len(special) > 1:
            special = [special[0], special[0], *special[1:]]
        return ordinary[0], special[number % len(special)]

    @property
    def avoid(self) -> list[str]:
        """What is better left out of longer programs: what the target does not support, and what it nearly always
        gets wrong, since it would hide everything else."""
        left_out = []
        for pair, counts in self.coverage.items():
            judged = counts["pass"] + counts["fail"] + counts["inconclusive"]
            unsupported = counts["rejected"] >= 2 and not judged
            hopeless = counts["fail"] >= 5 and counts["fail"] > judged / 2
            if unsupported or hopeless:
                left_out.append(pair)
        return sorted(left_out)

    # -- what was learnt ---------------------------------------------------------------------------------------------

    def absorb(self, turn: Turn) -> None:
        """Take over what a turn brought: one that was just done, or one from the store."""
        self.count(turn.number, ((generator, arm, programs) for generator, arm, programs, _ in turn.body.arms))
        self.learn(turn)

    def count(self, number: int, asked: Iterable[tuple[str, str, int]]) -> None:
        """A turn was asked for, with so many programs of each generator and arm: they are not asked for again."""
        self.turns = number + 1
        for generator, arm, programs in asked:
            self.programs += programs
            self.stats[(generator, arm)].programs += programs
            self.asked_of[generator] += programs

    def learn(self, turn: Turn) -> None:
        """What came of a turn that was counted before."""
        body = turn.body
        self.seconds += body.seconds
        for worth in self.recent.values():
            worth.programs *= FORGETTING
            worth.reward *= FORGETTING
        for generator, arm, programs, reward in body.arms:
            self.stats[(generator, arm)].reward += reward
            worth = self.recent[generator]
            worth.programs += programs
            worth.reward += reward
        for pair, counts in body.coverage.items():
            self.coverage[pair].update(counts)
        self.graphs.extend(map(Graph.from_json, body.interesting))
        self.seen.update(body.keys)
        self.pairs.update(body.pairs)
        self.rejections.update(body.reasons.get("rejected", {}))

    def summarise(self, results: Sequence[Screened], seconds: float) -> TurnBody:
        """The body of a turn: statistics, rewards, and what is worth changing further."""
        summary = TurnSummary(self.coverage.keys(), self.seen, self.pairs)
        for result in results:
            summary.add(result)
        return summary.body(results, seconds)


def _sampled(arm: Arm | Worth, rng: random.Random) -> float:
    """A draw from what is believed of the chance to bring something."""
    return rng.betavariate(1.0 + arm.reward, 1.0 + max(0.0, arm.programs - arm.reward) * 0.2)
