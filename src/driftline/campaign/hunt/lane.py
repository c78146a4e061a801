"""A lane: the programs that one target gets in a hunt, turn after turn, and the statistics of their results.

The requests of a turn depend only on the seed and on earlier turns of the same lane, not on the clock or on other
lanes. So the same seed gives the same programs, and a lane rebuilt from its stored turns continues as if it had never
stopped. Only the last turns of a hunt may be cut short by the clock. Several turns may run at once: `pipeline.py` says
which earlier turns each of them knows.
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

FLOOR = 0.08  # the least share of every generator, however little it brings
FORGETTING = 0.9  # weight of a turn's results in the next turn: a generator that stops bringing results loses its share
FIRST_TIME = 0.5  # share of operators tried alone, until each was tried once
SYSTEMATIC = 0.25  # the same after that, until each was tried in every way
KEPT_GRAPHS = 48
RECENT = 8  # turns from which the duration of the next one is estimated
SOLVED_EVERY = 8
IN_A_ROW = 5  # programs in a row about one arm, of a generator that is slow for each
PROMPT = 3  # first turns, which leave out generators that are slow to start, so that results come soon
FIRST = 4  # programs of the first turn; each later turn has twice as many, up to a batch


@dataclass
class Worth:
    """The recent results of a generator: programs and rewards, which count less with every turn."""

    programs: float = 0.0
    reward: float = 0.0


@dataclass
class Lane:
    """The state of one target in a hunt: its settings, the statistics of its turns, and the choice of the next
    programs."""

    target: Target
    form: str
    seed: int
    batch: int
    arms: Mapping[str, Sequence[str]]  # generator -> its arms
    alone: Mapping[str, int]  # operator -> the number of ways in which it is tried alone
    strategies: Sequence[str]
    needs_base: frozenset[str] = frozenset()
    focused: frozenset[str] = frozenset()  # generators that stay with an arm for several programs
    shard: Shard = WHOLE
    late: frozenset[str] = frozenset()  # generators that are slow to start
    closed: set[str] = field(default_factory=set)  # generators that make no more programs
    failures: int = 0  # turns lost by a fault of Driftline
    turns: int = 0
    programs: int = 0
    seconds: float = 0.0
    paces: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=RECENT))  # seconds, programs
    stats: dict[tuple[str, str], Arm] = field(default_factory=lambda: defaultdict(Arm))
    asked_of: Counter[str] = field(default_factory=Counter)  # programs by generator
    coverage: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    graphs: deque[Graph] = field(default_factory=lambda: deque(maxlen=KEPT_GRAPHS))
    seen: set[str] = field(default_factory=set)
    pairs: set[str] = field(default_factory=set)  # pairs of operators seen together: "one>other"
    recent: dict[str, Worth] = field(default_factory=lambda: defaultdict(Worth))  # by generator
    rejections: Counter[str] = field(default_factory=Counter)  # the compiler's messages about unsupported programs

    @property
    def name(self) -> str:
        return str(self.target)

    @property
    def shortest(self) -> int:
        """The number of programs in the first turn, which is short so that results come as soon as a compiler is
        imported. The last turns of a hunt may be as short, to end on time."""
        return min(FIRST, self.batch)

    @property
    def turn_size(self) -> int:
        """The number of programs in the next turn. It depends only on the turn's number, so that every run gives the
        same programs."""
        return min(self.batch, FIRST << min(self.turns, 16))

    def timed(self, number: int, seconds: float, programs: int) -> None:
        """Note how long a turn took. This affects only how short the last turns of a hunt are cut."""
        if programs and number:  # the first turn includes the start of the compiler
            self.paces.append((seconds, programs))

    @property
    def pace(self) -> float:
        """Seconds per program over the last turns; 0 before the first turn has ended."""
        programs = sum(count for _, count in self.paces)
        return sum(seconds for seconds, _ in self.paces) / programs if programs else 0.0

    def seconds_for(self, programs: int) -> float:
        """Return the estimated seconds of a turn with so many programs."""
        return self.pace * programs

    def done_in(self, seconds: float) -> int:
        """Return how many programs can be done in so many seconds: at least a short turn; a batch if no pace is
        known."""
        return max(self.shortest, int(seconds / self.pace)) if self.pace and math.isfinite(seconds) else self.batch

    @property
    def exhausted(self) -> bool:
        """True if no generator is left that makes new programs."""
        return not set(self._left) - self.needs_base and not self._untried()

    @property
    def unlisted(self) -> bool:
        """True if the next turn must wait until the arms of the generators that are slow to start are listed."""
        return self.turns >= PROMPT and isinstance(self.arms, LaneArms) and not self.arms.complete

    def list_arms(self) -> None:
        """List the arms of all generators, which may take seconds."""
        if isinstance(self.arms, LaneArms):
            self.arms.list_all()

    @property
    def _left(self) -> list[str]:
        """The generators that may still make programs, without `alone`. Generators that are slow to start are included
        before their arms are listed, though they may turn out to have none."""
        names = [name for name in self.arms if name not in self.closed and name != ALONE]
        return names if self._is_prompt else [name for name in names if name not in self.late or self.arms[name]]

    @property
    def _drawn(self) -> list[str]:
        """The generators that share the programs of a turn besides operators alone."""
        return [name for name in self._left if name not in self.late or not self._is_prompt]

    @property
    def _is_prompt(self) -> bool:
        """True during the first turns, in which generators that are slow to start make no programs unless there are no
        others."""
        prompt = set(self.arms) - self.closed - self.late - self.needs_base - {ALONE}
        return self.turns < PROMPT and bool(prompt or self._untried())

    def target_of(self, request: ProgramRequest) -> Target:
        """Return the target on which a program runs: the lane's, with the options of the request."""
        return self.target.also(request.options)

    # -- what to ask for ---------------------------------------------------------------------------------------------

    def requests(self, limit: int) -> list[ProgramRequest]:
        """Return the requests of the next turn: operators alone that were not tried in every way, and programs of the
        other generators, chosen by their results."""
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
        """Return the stored graphs that may be changed further: those without an operator that nearly always fails."""
        return [
            graph
            for graph in self.graphs
            if avoid.isdisjoint(f"{operator} {dtype}" for operator, dtype in graph.coverage)
        ]

    def _untried(self) -> list[str]:
        """Return the operators that were not tried alone in every way."""
        if ALONE in self.closed:
            return []
        tried = {arm: self.shard.numbered(self.stats[(ALONE, arm)].programs) for arm in self.arms.get(ALONE, ())}
        return [arm for arm, number in tried.items() if number < self.alone[arm]]

    def _lone(self, size: int, rng: random.Random) -> list[str]:
        """Return the operators to try alone in a turn, the least tried first. They fill their share of the turn, or all
        of it if no other generator makes programs."""
        left = self._untried()
        rng.shuffle(left)
        left.sort(key=lambda arm: self.stats[(ALONE, arm)].programs)
        first_time = bool(left) and not self.stats[(ALONE, left[0])].programs
        others = set(self._drawn) - self.needs_base
        share = int(size * (FIRST_TIME if first_time else SYSTEMATIC))
        return left[: max(1, min(share, size - len(others))) if others else size]  # room for each in a short turn

    def _generator(self, rng: random.Random, made: Sequence[ProgramRequest], *, can_change: bool) -> str | None:
        """Choose a generator: each once in random order, then by Thompson sampling with a least share for each."""
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
        """Choose an arm by Thompson sampling over four random arms, which leaves room for all."""
        arms = self.arms[generator]
        few = rng.sample(list(arms), min(len(arms), 4))
        return max(few, key=lambda arm: _sampled(self.stats[(generator, arm)], rng))

    def _arm_after(self, made: Sequence[ProgramRequest], generator: str, rng: random.Random) -> str:
        """Return the arm of the next program; a focused generator stays with its last arm for a few programs."""
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
        """Return the input strategies of an operator alone: every other program gets ordinary numbers, a NaN and
        infinities, in three calls."""
        if number % 2 or not {"random", "specials"} <= set(self.strategies):
            return self._strategies(number)
        return "random", "nan", "infinities"

    def _strategies(self, number: int) -> tuple[str, str]:
        """Return two input strategies for a program: one ordinary, one special; every third special one draws from the
        operators' edges. Every eighth program uses solved inputs, which take longer than running a small program."""
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
        """The operators with dtypes that longer programs should not contain: unsupported by the target, or nearly
        always wrong, which would hide other failures."""
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
        """Add a turn, just finished or from the store, to the statistics."""
        self.count(turn.number, ((generator, arm, programs) for generator, arm, programs, _ in turn.body.arms))
        self.learn(turn)

    def count(self, number: int, asked: Iterable[tuple[str, str, int]]) -> None:
        """Count the programs that a turn asked for, so that they are not asked for again."""
        self.turns = number + 1
        for generator, arm, programs in asked:
            self.programs += programs
            self.stats[(generator, arm)].programs += programs
            self.asked_of[generator] += programs

    def learn(self, turn: Turn) -> None:
        """Add the results of a turn that was counted before."""
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
        """Return the stored form of a turn: statistics, rewards, and the graphs worth changing further."""
        summary = TurnSummary(self.coverage.keys(), self.seen, self.pairs)
        for result in results:
            summary.add(result)
        return summary.body(results, seconds)


def _sampled(arm: Arm | Worth, rng: random.Random) -> float:
    """Return a random success probability, drawn from the Beta distribution of the programs and rewards so far."""
    return rng.betavariate(1.0 + arm.reward, 1.0 + max(0.0, arm.programs - arm.reward) * 0.2)
