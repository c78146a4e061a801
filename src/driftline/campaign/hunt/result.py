"""The result of a hunt, as it is shown and written down."""

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
    bugs: dict[str, Bug] = field(default_factory=dict)  # those seen, by id
    new: list[str] = field(default_factory=list)  # ids of those that the store did not know before
    programs: dict[str, int] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    internal_errors: list[str] = field(default_factory=list)
    no_more: dict[str, str] = field(default_factory=dict)  # "generator for lane" -> why it makes no more programs
    stopped: dict[str, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)  # of these, targets that fail whatever they are given
    judged: int = 0  # executions that came to a verdict; without one, nothing is known
    no_time: str = ""  # why nothing was done when it was resumed
    explained: ExplainedBugs = field(default_factory=ExplainedBugs)  # what was explained after it
    unexamined: list[Suspect] = field(default_factory=list)  # the worst first
    not_reduced: dict[str, str] = field(default_factory=dict)  # ids of bugs, and why
    failed_steps: list[FailedStep] = field(default_factory=list)  # those at its end, and why it ended early

    def __repr__(self) -> str:
        found = f": {shortened(list(self.bugs))}" if self.bugs else ""
        programs = sum(self.programs.values())
        return f"<HuntResult {self.hunt.id}: {programs} programs, {len(self.bugs)} bugs ({len(self.new)} new){found}>"

    def add(self, bug: Bug, *, new: bool) -> None:
        """A bug was seen: in a program of the hunt, or while another one was explained."""
        self.bugs[bug.id] = bug
        if new and bug.id not in self.new:
            self.new.append(bug.id)


def hunt_so_far(store: Store, hunt: Hunt) -> HuntResult:
    """Return the result of a hunt that the store has, also of one that was interrupted."""
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
