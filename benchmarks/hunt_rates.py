"""Programs with a verdict (pass, fail, inconclusive) a minute: by real hunts, and by screening alone.

Screening makes, runs and judges a batch; a hunt also examines and keeps what failed. Screening on one lane, whose steps
follow each other, keeps about one core busy; two lanes are what a hunt on two targets has. A hunt has several batches
of a target in hand at once, and examines what failed beside them.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from driftline.backends import BACKENDS
from driftline.campaign.hunt.crew import LocalCrew
from driftline.campaign.hunt.foremen import Foremen
from driftline.campaign.hunt.hunter import Hunter
from driftline.campaign.hunt.lane import Lane
from driftline.campaign.hunt.plan import HuntPlan, form_of
from driftline.checking.batch import Screening
from driftline.core.target import Target
from driftline.events import BugSeen, Event, TurnDone
from driftline.execute.pool import Pool
from driftline.generate import GENERATORS
from driftline.generate.lone_operators import ALONE, lone_programs
from driftline.store import Store
from driftline.store.hunts import Turn

JUDGED = ("pass", "fail", "inconclusive")


def judged_in(counts: Mapping[str, int]) -> int:
    return sum(counts.get(name, 0) for name in JUDGED)


def processor_seconds() -> float:
    """What this process and all that came from it have used so far: it does not depend on the neighbours, as the clock
    does. Ended processes are counted by the ones that waited for them."""
    total = 0.0
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])  # user and system, its own and of its dead children
    return total


@dataclass
class Hunted:
    """What a hunt did, turn by turn."""

    seconds: float = 0.0
    processor: float = 0.0  # seconds of processor time
    counts: Counter[str] = field(default_factory=Counter)
    by_target: dict[str, Counter[str]] = field(default_factory=dict)
    screening: float = 0.0  # seconds, over all lanes
    bugs: int = 0
    suspects: Mapping[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    turns: list[tuple[float, int, float, int]] = field(default_factory=list)  # when, programs, seconds, memory
    first_judged: float | None = None  # seconds from the start
    first_bug: float | None = None
    used_judged: float | None = None  # seconds of processor time until then, which depend less on the neighbours
    used_bug: float | None = None
    first_of: dict[str, float] = field(default_factory=dict)  # by target: seconds to its first judged program
    parent: float = 0.0  # seconds of processor time of the parent process alone
    curves: dict[str, list[tuple[float, int]]] = field(default_factory=dict)  # by target: when, programs until then

    @property
    def judged(self) -> int:
        return judged_in(self.counts)

    @property
    def per_minute(self) -> float:
        return self.judged / self.seconds * 60

    @property
    def cost(self) -> float:
        """Milliseconds of processor time for each judged program, starting and examining included."""
        return 1e3 * self.processor / max(1, self.judged)

    @property
    def apart(self) -> str:
        return f"{self.counts['rejected']} rejected, {self.counts['invalid']} invalid"

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "turns": len(self.turns),
            "judged": self.judged,
            "per_minute": self.per_minute,
            "cost": self.cost,
        }


def hunted(
    targets: Sequence[str],
    seconds: float,
    folder: Path,
    seed: int,
    pool: Pool,
    jobs: int = 2,
    programs: int = 0,
    generators: Sequence[str] = ("graph",),
    foremen: Foremen | None = None,
) -> Hunted:
    """A real hunt into a store of its own."""
    seen = Hunted()
    own = psutil.Process()
    one_at_a_time = threading.Lock()
    started, used, own_used = time.monotonic(), processor_seconds(), time.process_time()

    def listener(event: Event) -> None:
        if isinstance(event, BugSeen) and seen.first_bug is None:
            seen.first_bug = time.monotonic() - started
            seen.used_bug = processor_seconds() - used
        if not isinstance(event, TurnDone):
            return
        with one_at_a_time:
            if judged_in(event.counts):
                seen.first_of.setdefault(event.lane, time.monotonic() - started)
                if seen.first_judged is None:
                    seen.first_judged = time.monotonic() - started
                    seen.used_judged = processor_seconds() - used
            programs = sum(event.counts.values())
            seen.counts.update(event.counts)
            seen.by_target.setdefault(event.lane, Counter()).update(event.counts)
            curve = seen.curves.setdefault(event.lane, [])
            curve.append((time.monotonic() - started, programs + (curve[-1][1] if curve else 0)))
            seen.screening += event.seconds
            seen.turns.append((time.monotonic() - started, programs, event.seconds, own.memory_info().rss))

    plan = HuntPlan(targets=tuple(targets), generators=tuple(generators), seed=seed, seconds=seconds, programs=programs)
    with Store.create(folder) as store:
        crew = LocalCrew(pool, store, jobs, foremen=foremen)
        result = Hunter(pool, store, plan, crew=crew, listener=listener).run()
        seen.processor, seen.parent = processor_seconds() - used, time.process_time() - own_used
    seen.seconds = time.monotonic() - started
    seen.bugs = len(result.bugs)
    seen.suspects = result.settled
    seen.problems = [f"{name}: {reason}" for name, reason in result.stopped.items()]
    seen.problems += [f"internal error: {_where(text)}" for text in result.internal_errors[:3]]
    return seen


def _where(text: str) -> str:
    """The program, the last place in Driftline, and the error of an internal error."""
    lines = [line.strip() for line in text.strip().splitlines()]
    places = [line for line in lines if line.startswith("File ") and "driftline" in line]
    return " | ".join(dict.fromkeys([lines[0][:120], *places[-1:], lines[-1][:200]]))


def make_lane(text: str, seed: int) -> Lane:
    """The lane that a hunt would have for a target."""
    target = Target.parse(text)
    backend = BACKENDS.get(target.backend)
    form = form_of(backend)
    assert form
    arms = {name: list(GENERATORS.get(name).arms(form)) for name in (ALONE, "graph")}
    return Lane(target, form, seed, backend.batch, arms, lone_programs(form), HuntPlan((), ()).inputs)


def take_turn(lane: Lane, pool: Pool, limit: int) -> Counter[str]:
    """A turn as a hunt has it, without the store and without examining what failed."""
    started = time.monotonic()
    with Screening(pool, lane.form, seed=lane.seed) as screening:
        results = screening.screen(lane.requests(limit), lane.target)
    body = lane.summarise(results, time.monotonic() - started)
    lane.absorb(Turn(lane.name, lane.turns, body))
    return Counter({**body.counts, "operators": sum(len(result.coverage) for result in results)})


@dataclass(frozen=True)
class Rate:
    """How fast screening was."""

    per_minute: float
    cost: float  # milliseconds of processor time for a judged program
    counts: Counter[str]


def learn(lane: Lane, pool: Pool, seconds: float) -> Rate:
    """Operators alone, as a hunt begins with them: judged programs a minute, on one lane. What the target does not
    support is known after that; those that there was no time for are left out."""
    lane.closed = {"graph"}
    take_turn(lane, pool, 2)  # starts the workers
    started, used = time.monotonic(), processor_seconds()
    counts: Counter[str] = Counter()
    while time.monotonic() - started < seconds and not lane.exhausted:
        counts.update(take_turn(lane, pool, lane.batch))
    elapsed, used = time.monotonic() - started, processor_seconds() - used
    lane.closed = {ALONE}
    return Rate(judged_in(counts) / elapsed * 60, 1e3 * used / max(1, judged_in(counts)), counts)


def screened(learnt: Lane, pool: Pool, seconds: float, lanes: int) -> Rate:
    """The longer programs that follow: judged programs a minute by screening alone, on so many lanes at once."""
    ready = threading.Barrier(lanes)
    rates: list[float] = []
    counts: Counter[str] = Counter()

    def work(lane: Lane) -> None:
        take_turn(lane, pool, 2)
        ready.wait()
        started = time.monotonic()
        mine: Counter[str] = Counter()
        while time.monotonic() - started < seconds:
            mine.update(take_turn(lane, pool, lane.batch))
        rates.append(judged_in(mine) / (time.monotonic() - started) * 60)
        counts.update(mine)

    copies = [replace(copy.deepcopy(learnt), seed=learnt.seed + 1 + number) for number in range(lanes)]
    threads = [threading.Thread(target=work, args=(lane,)) for lane in copies]
    used = processor_seconds()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = processor_seconds() - used
    if len(rates) < lanes:
        raise RuntimeError(f"screening on {learnt.name} failed; the reason is above")
    return Rate(sum(rates), 1e3 * used / max(1, judged_in(counts)), counts)
