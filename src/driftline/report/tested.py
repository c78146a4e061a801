"""Collect how much was tested, and what was not, from the hunts of a store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from driftline.core.errors import StoreError
from driftline.report import words
from driftline.report.growth import GrowthOf
from driftline.report.model_use import model_use
from driftline.report.results import examine_command
from driftline.report.settlement import listed_suspects
from driftline.report.view import BugView, EnvironmentView, LaneView, SlowView, Statistics
from driftline.store import Store
from driftline.store.checks import CheckLog
from driftline.store.hunts import Hunt, HuntLog, Turn, TurnBody
from driftline.store.schedules import ScheduleLog

SLOWEST = 10  # programs that are listed
MOST_LEFT = 10  # suspects of a hunt that are listed


def hunts_of(log: HuntLog) -> list[Hunt]:
    try:
        return log.hunts()
    except StoreError:  # a store of an earlier Driftline that may not be written knows no hunts
        return []


def checked_of(store: Store) -> tuple[int, int]:
    """Return how many programs single checks ran, and on how many targets."""
    try:
        rows = CheckLog(store).all()
    except StoreError:  # a store of an earlier Driftline that may not be written
        return 0, 0
    return len({row.program for row in rows}), len({row.target for row in rows})


def others_of(store: Store) -> list[str]:
    """Return how many audits and hunts among schedules the store has, in words."""
    try:
        audits, schedules = (
            store.query(f"SELECT COUNT(*) FROM {table}")[0][0] for table in ("audits", "schedule_hunts")
        )
    except StoreError:  # a store of an earlier Driftline that may not be written
        return []
    told = (
        (audits, words.plural(audits, "audit")),
        (schedules, words.plural(schedules, "hunt among", "hunts among") + " schedules"),
    )
    return [text for count, text in told if count]


def environment_of(hunts: Sequence[Hunt], bugs: Sequence[BugView]) -> EnvironmentView:
    """Return the versions of the targets, and facts such as seeds and times, of hunts or else of bugs."""
    versions: dict[str, str] = {}
    facts: dict[str, str] = {}
    for hunt in hunts:
        versions |= {str(t): str(v) for t, v in (hunt.environment.get("versions") or {}).items() if v}
        facts |= {name: str(v) for name, v in hunt.environment.items() if isinstance(v, (str, int, float))}
    for bug in bugs:
        if bug.versions:
            versions.setdefault(bug.target, bug.versions[-1])
    facts |= {**_plan_facts(hunts), **_times(hunts, bugs)}
    return EnvironmentView(dict(sorted(versions.items())), facts)


def _plan_facts(hunts: Sequence[Hunt]) -> dict[str, str]:
    facts = {}
    for key in ("seed", "generators", "inputs"):
        told = dict.fromkeys(_listed(hunt.plan[key]) for hunt in hunts if hunt.plan.get(key) not in (None, "", []))
        if told:
            facts[key] = "; ".join(told)
    return facts


def _times(hunts: Sequence[Hunt], bugs: Sequence[BugView]) -> dict[str, str]:
    facts = {}
    if hunts:
        facts["time"] = words.duration(sum(hunt.seconds for hunt in hunts)) + f" in {words.plural(len(hunts), 'hunt')}"
        facts["started"] = min(hunt.started for hunt in hunts)
        facts["finished"] = max(h.finished for h in hunts) if all(h.finished for h in hunts) else "not finished"
    elif bugs:
        facts["first seen"] = min(bug.first_seen for bug in bugs)
        facts["last seen"] = max(bug.last_seen for bug in bugs)
    return facts


def schedules_tested(store: Store) -> dict[str, str]:
    """Summarise the hunts among schedules as a fact of the environment; empty if there were none."""
    log = ScheduleLog(store)
    try:
        hunts = log.hunts()
    except StoreError:  # a store of an earlier Driftline that may not be written
        return {}
    if not hunts:
        return {}
    outcomes = Counter[str]()
    for hunt in hunts:
        for body in log.batches(hunt).values():
            outcomes.update(body.outcomes)
    told = ", ".join(f"{count:,} {kind}" for kind, count in outcomes.most_common())
    took = words.duration(sum(hunt.seconds for hunt in hunts))
    return {"schedules": f"{outcomes.total():,} in {words.plural(len(hunts), 'hunt')} of {took}: {told or 'none'}"}


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple, dict)) else str(value)


def statistics_of(log: HuntLog, hunts: Sequence[Hunt]) -> Statistics:
    """Sum up all turns of the hunts: programs, verdicts, coverage, suspects and what was not tested."""
    programs: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    coverage: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    generators: Counter[str] = Counter()
    suspects: Counter[str] = Counter()
    growth = GrowthOf()
    slow: list[Turn] = []
    for hunt in hunts:
        suspects.update(log.settled(hunt))
        sizes: list[tuple[str, int, int]] = []
        for turn in log.turns(hunt):
            body = turn.body
            sizes.append((turn.lane, turn.number, body.programs))
            programs[turn.lane] += body.programs
            seconds[turn.lane] += body.seconds
            verdicts[turn.lane].update(body.counts)
            generators.update(_generators(body))
            slow += [turn] if body.slowest else []
            for verdict, told in body.reasons.items():
                reasons[verdict].update(told)
            for pair, counts in body.coverage.items():
                operator, _, dtype = pair.rpartition(" ")
                coverage[operator or pair][dtype].update(counts)
        growth.add(sizes, log.bugs_by_turn(hunt))
    planned = {str(target) for hunt in hunts for target in hunt.plan.get("targets") or ()}
    started = {target.partition(":")[0] for target in verdicts}
    idle = {target for target in planned - set(verdicts) if target.partition(":")[0] not in started}
    lanes = tuple(LaneView(t, programs[t], float(seconds[t]), dict(verdicts[t])) for t in sorted({*verdicts, *idle}))
    never = _never_drawn(coverage)
    return Statistics(
        programs=sum(programs.values()),
        seconds=sum(hunt.seconds for hunt in hunts),
        lanes=lanes,
        reasons={verdict: dict(told.most_common()) for verdict, told in reasons.items()},
        suspects=dict(suspects),
        coverage={o: {d: dict(c) for d, c in sorted(by.items())} for o, by in sorted(coverage.items())},
        generators=dict(generators.most_common()),
        never_drawn=never,
        untested=(*_left_out(hunts), *_untested(lanes, suspects, coverage, never), *_unexamined(log, hunts)),
        models=model_use(log, hunts),
        growth=growth.points(),
        hunt_ends=growth.ends(),
        slowest=slowest_of(slow),
        unsettled=listed_suspects(log, hunts),
    )


def slowest_of(turns: Iterable[Turn]) -> tuple[SlowView, ...]:
    """Return the programs of these turns that took longest."""
    found = [
        SlowView(turn.lane, one.name, one.step, one.seconds, one.judgement)
        for turn in turns
        for one in turn.body.slowest
    ]
    return tuple(sorted(found, key=lambda one: -one.seconds)[:SLOWEST])


def _generators(body: TurnBody) -> Counter[str]:
    """Count the programs of a turn by generator. A turn has one generator, or several arms (generator, arm, programs,
    reward).
    """
    if body.generator:
        return Counter({body.generator: body.programs})
    found: Counter[str] = Counter()
    for generator, _, programs, _ in body.arms:
        found[generator] += programs
    return found


def _never_drawn(coverage: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the operators that Driftline can draw but did not; empty if the coverage uses other operator names."""
    from driftline.generate.table import OPERATORS

    known = set(OPERATORS)
    return tuple(sorted(known - set(coverage))) if known & set(coverage) else ()


def _left_out(hunts: Sequence[Hunt]) -> Iterable[str]:
    """Return sentences on generators that lacked a requirement, each once."""
    told = (str(why) for hunt in hunts for why in hunt.environment.get("left_out") or ())
    return dict.fromkeys(f"{why}." for why in told)


def _unexamined(log: HuntLog, hunts: Sequence[Hunt]) -> Iterable[str]:
    """Yield sentences on suspects that were not examined, and the command that examines them."""
    for hunt in hunts:
        if left := log.left(hunt):
            were = "was" if len(left) == 1 else "were"
            more = f", the worst {MOST_LEFT} of which are listed" if len(left) > MOST_LEFT else ""
            yield (
                f"{words.plural(len(left), 'suspect')} seemed to fail and {were} not examined{more}:"
                f" {examine_command(hunt.id, log.place)} does that."
            )
            yield from (f"Not examined: {suspect.sentence}." for suspect in left[:MOST_LEFT])


def _untested(
    lanes: Iterable[LaneView], suspects: Mapping[str, int], coverage: Mapping[str, Mapping[str, Counter[str]]],
    never: tuple[str, ...],
) -> Iterable[str]:  # fmt: skip
    """Yield sentences on parts that seem tested but are not."""
    for lane in lanes:
        if not lane.programs:
            yield f"{lane.target}: no program was run; the time was up, or it did not start."
        judged = lane.verdicts.get("pass", 0) + lane.verdicts.get("fail", 0)
        if lane.programs and judged < lane.programs / 2:
            yield f"{lane.target}: only {judged:,} of {lane.programs:,} programs were judged; the rest was declined."
    if gone := suspects.get("gone", 0):
        yield f"{words.plural(gone, 'suspect')} did not fail when run alone, and {'is' if gone == 1 else 'are'} no bug."
    if unclear := suspects.get("unclear", 0):
        yield f"{words.plural(unclear, 'suspect')} could not be settled either way."
    idle = [o for o, by in coverage.items() if not any(c.get("pass") or c.get("fail") for c in by.values())]
    if idle:
        yield f"{words.plural(len(idle), 'operator')} never came through a compiler: {_some(sorted(idle))}."
    if never:
        yield f"{words.plural(len(never), 'operator')} of the table {'was' if len(never) == 1 else 'were'} never drawn."


def _some(names: list[str], limit: int = 12) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
