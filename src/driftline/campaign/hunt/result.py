"""The result of a hunt, as shown and stored."""

from __future__ import annotations

from dataclasses import dataclass, field

from driftline.campaign.explain.explanations import ExplainedBugs
from driftline.campaign.hunt.reducing import not_reduced
from driftline.core.closing import FailedStep
from driftline.core.text import shortened
from driftline.report.hunts import NO_TIME
from driftline.store import Bug, Store
from driftline.store.hunts import Hunt, HuntLog, Suspect


@dataclass
class HuntResult:
    """The bugs, counts and failures of a hunt."""

    hunt: Hunt
    bugs: dict[str, Bug] = field(default_factory=dict)  # bugs seen, by id
    new: list[str] = field(default_factory=list)  # ids of the bugs that the store did not know before
    programs: dict[str, int] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    internal_errors: list[str] = field(default_factory=list)
    no_more: dict[str, str] = field(default_factory=dict)  # "generator for lane" -> why it makes no more programs
    stopped: dict[str, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)  # those of the stopped targets that fail on every program
    judged: int = 0  # executions with a verdict; if there is none, nothing was compared
    no_time: str = ""  # why a resumed hunt did nothing
    explained: ExplainedBugs = field(default_factory=ExplainedBugs)  # explanations made after the hunt
    unexamined: list[Suspect] = field(default_factory=list)  # the worst first
    not_reduced: dict[str, str] = field(default_factory=dict)  # bug ids -> reason
    failed_steps: list[FailedStep] = field(default_factory=list)  # failed steps at the end of the hunt

    def __repr__(self) -> str:
        found = f": {shortened(list(self.bugs))}" if self.bugs else ""
        programs = sum(self.programs.values())
        return f"<HuntResult {self.hunt.id}: {programs} programs, {len(self.bugs)} bugs ({len(self.new)} new){found}>"

    def add(self, bug: Bug, *, new: bool) -> None:
        """Add a bug that was seen in a program of the hunt or during the explanation of another bug."""
        self.bugs[bug.id] = bug
        if new and bug.id not in self.new:
            self.new.append(bug.id)


def hunt_so_far(store: Store, hunt: Hunt) -> HuntResult:
    """Return the stored result of a hunt, also of an interrupted one."""
    log = HuntLog(store)
    result = HuntResult(log.hunt(hunt.id), {name: store.bug(name) for name in log.sightings(hunt)})
    result.new = [bug.id for bug in result.bugs.values() if bug.first_seen >= hunt.started]
    result.programs = dict.fromkeys(map(str, hunt.plan.get("targets") or ()), 0)
    for turn in log.turns(hunt):
        result.programs[turn.lane] = result.programs.get(turn.lane, 0) + turn.body.programs
        result.judged += sum(turn.body.counts.get(judgement, 0) for judgement in ("pass", "fail"))
    result.settled = log.settled(hunt)
    result.unexamined = log.left(hunt)
    result.not_reduced = dict.fromkeys(not_reduced(store, hunt), NO_TIME)
    return result
