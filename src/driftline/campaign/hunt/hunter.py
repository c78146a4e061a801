"""Runs a hunt: lanes of programs, each on its own compiler, until the budget is spent.

All targets get the same time, so a quick compiler sees more programs than a slow one. Every turn is stored when it is
done, and every suspect when it is settled; when a killed hunt is resumed, only the work that was in progress is
repeated.
"""

from __future__ import annotations

import contextlib
import math
import platform
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from driftline import __version__
from driftline.backends import BACKENDS
from driftline.campaign.authoring.author import GENERATOR as LLM
from driftline.campaign.authoring.author import Author
from driftline.campaign.check.broken import is_error, trivial_requests, why_broken
from driftline.campaign.hunt.crew import Crew, LocalCrew, start_seconds
from driftline.campaign.hunt.lane import Lane
from driftline.campaign.hunt.lane_opener import LaneOpener
from driftline.campaign.hunt.pipeline import LAG, AskedTurn, Pipeline
from driftline.campaign.hunt.plan import HuntPlan, locked
from driftline.campaign.hunt.reducing import not_reduced, reduce_bugs
from driftline.campaign.hunt.result import HuntResult, hunt_so_far
from driftline.campaign.hunt.roster import GRACE, SHARE_OF_GRACE, LaneTask, LaneWork, Roster
from driftline.campaign.hunt.turn_summary import failure_key
from driftline.campaign.orders import SuspectOrder, TurnOrder
from driftline.campaign.triage.examination import ExaminedSuspect
from driftline.checking.batch import Screened, Screening
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker, Skipped
from driftline.checking.settings import require_settings
from driftline.core.case import CheckOptions
from driftline.core.closing import closing_step
from driftline.core.errors import NOTHING_COMPARED, DriftlineError, InternalError
from driftline.core.full_disk import no_room
from driftline.core.severity import severity
from driftline.core.target import Target
from driftline.core.wire import decode, encode
from driftline.events import BugSeen, GeneratorStopped, HuntStarted, LaneStopped, Listener, TurnDone, Working
from driftline.execute.pool import Pool, PoolExpired, PoolInterrupted, WorkerStartError
from driftline.execute.slots import one_order
from driftline.store import Bug, Store
from driftline.store.hunts import Hunt, HuntLog, Suspect, SuspectBody, Turn, TurnBody
from driftline.store.tries import ModelTry

OFTEN = 0.25  # share of a turn's programs: a target that fails so many with errors may be unreliable
MOST_FAILURES = 3  # turns lost by faults of Driftline, in one lane
EARLY = 20  # judged programs that each target gets before anything else, on some of the processors
OVERRUN = 2.0  # factor by which a hunt may exceed its time until each target has its least number of judged programs
ORDINARY = "random"  # the strategy that draws ordinary numbers as inputs
CATCH_UP = 600.0  # seconds for the leftovers of a hunt whose own time is over and that got no other
SHARE_OF_REDUCING = 0.1  # share of a hunt's time for reducing the bugs found
LEAST_TO_REDUCE = 60.0  # seconds: shorter hunts keep no time for reducing


class NothingHunted(DriftlineError):
    """The time was over before a program could be made."""

    exit_code = NOTHING_COMPARED


@dataclass(frozen=True)
class _TurnOutcome:
    """The outcome of a turn before it is stored: the turns of a lane are stored in their order."""

    asked: AskedTurn
    seconds: float = 0.0
    results: Sequence[Screened] = ()
    tries: tuple[ModelTry, ...] = ()
    error: str = ""  # a fault of Driftline by which the turn was lost


class Hunter:
    """Runs one hunt, with a thread for each order that the crew carries out at the same time."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        plan: HuntPlan,
        *,
        listener: Listener,
        crew: Crew,
        author: Author | None = None,
    ) -> None:
        """`crew` makes, runs and examines programs; `author` writes those of the generator `llm`; `pool` runs the
        hunt's own tasks."""
        self._pool = pool
        self._author = author
        self._store = store
        self._plan = plan
        self._crew = crew
        self._listener = listener
        self._log = HuntLog(store)
        self._options = CheckOptions(seed=plan.seed, timeout=plan.timeout, plugins=plan.plugins, accept=plan.accept)
        self._lanes: dict[str, Lane] = {}
        self._pipelines: dict[str, Pipeline[_TurnOutcome]] = {}
        self._examining: set[int] = set()  # suspects
        self._given_up: set[str] = set()  # lanes whose compiler cannot start, or with too many faults of Driftline
        self._sound: set[str] = set()  # lanes whose target is known not to be broken
        self._reliable: set[str] = set()  # those of them that were tested again with the same programs
        self._lock = threading.Lock()
        self._opener = LaneOpener(pool, plan, author, self._missed)
        self._failure: BaseException | None = None
        self._limit = plan.seconds or math.inf  # seconds from the beginning to the end of the hunt
        self._busy = False  # a turn or a suspect was worked on
        self._judged: Counter[str] = Counter()  # judged programs by lane
        self._catching_up: set[str] = set()  # lanes with leftover suspects, while these are examined
        self._cut = False  # the time is over: of the current turns, only the finished part is stored
        self._not_done: dict[str, list[Turn]] = {}  # by lane: turns of which nothing was done when the time was over

    # -- from beginning to end ---------------------------------------------------------------------------------------

    def run(self, resume: Hunt | None = None, skipped: Sequence[Skipped] = (), *, spent: float = 0.0) -> HuntResult:
        """Run the hunt, or resume one, and return its result. `spent`: seconds of the budget that are used already."""
        self._started = time.monotonic() - spent - (resume.seconds if resume else 0.0)
        # A hunt by numbers examines its suspects in order, leftover ones among them.
        left = bool(resume and not self._in_order and self._log.left(resume))
        if resume and self._time_left() <= 0:
            if not left and not not_reduced(self._store, resume):
                return self._closed(resume)
            self._limit = time.monotonic() - self._started + max(self._plan.seconds, CATCH_UP)
        require_settings(self._pool, map(Target.parse, self._plan.targets), self._plan.plugins)
        hunt, lanes, missing = self._begun(resume)
        with locked(self._store, hunt):
            self._hunt, self._result = hunt, HuntResult(hunt)
            self._lanes = {lane.name: lane for lane in lanes}
            # The requests to a model follow from all turns before.
            self._pipelines = {lane.name: Pipeline(lane, 1 if LLM in lane.arms else LAG) for lane in lanes}
            self._announce((*skipped, *missing))
            failed = self._result.failed_steps
            with closing_step(failed, "the hunt", "driftline hunt --resume goes on with it"):
                self._hunt_on(left)
            if failed:
                return self._summed_up(hunt)
            self._match_waiting()
            self._reduce(resumed=resume is not None)
            with closing_step(failed, "noting the end of the hunt", "driftline hunt --resume brings it to its end"):
                self._log.leave_unexamined(hunt)
                self._log.spend(hunt, time.monotonic() - self._started)
                self._log.note_left_out(hunt, self._opener.left_out)
                self._log.finish(hunt)
        return self._summed_up(hunt)

    def _begun(self, resume: Hunt | None) -> tuple[Hunt, list[Lane], list[Skipped]]:
        """Return the hunt with its lanes and the skipped targets. The hunt is stored before the frameworks are
        imported, so that it can be resumed if it ends there. It is removed again if its settings cannot work."""
        hunt = resume or self._log.begin(self._plan.to_json(), _environment([], []))
        try:
            lanes, missing = self._lanes_in_time()
        except NothingHunted:
            self._log.spend(hunt, time.monotonic() - self._started)
            raise
        except DriftlineError:
            if not resume:
                self._log.drop(hunt)
            raise
        if resume and resume.environment.get("versions"):
            return hunt, lanes, missing
        self._log.note_environment(hunt, _environment(lanes, self._opener.left_out))
        return self._log.hunt(hunt.id), lanes, missing

    def _announce(self, skipped: Sequence[Skipped]) -> None:
        plan, hunt = self._plan, self._hunt
        self._listener(
            HuntStarted(
                tuple(self._lanes),
                tuple(skipped),
                tuple(self._opener.left_out),
                plan.seed,
                plan.seconds,
                plan.programs,
                sum(not turn.body.again for turn in self._log.turns(hunt)),
                time.monotonic() - self._started,
                hunt.id,
                hunt.run,
            )
        )
        for bug in self._sighted(hunt).values():  # bugs from before the resumption
            self._listener(BugSeen(bug, new=False))

    def _hunt_on(self, left: bool) -> None:
        """Examine the leftover suspects, if `left`, and then run programs if there is time."""
        over = self._limit > (self._plan.seconds or math.inf)
        if left:
            self._log.reopen(self._hunt)
            suspects = self._log.left(self._hunt)
            self._listener(Working("examining what was left", f"{len(suspects)} failing programs"))
            self._catching_up = {suspect.lane for suspect in suspects}
            self._roster = self._new_roster(turns=False)
            self._work()
            self._catching_up = set()
        if over:
            return
        hunt, asked = self._hunt, HuntPlan.from_json(self._hunt.plan)
        if (asked.seconds, asked.programs) != (self._plan.seconds, self._plan.programs):
            limited = replace(asked, seconds=self._plan.seconds, programs=self._plan.programs)
            self._log.set_limit(hunt, limited.to_json(), self._plan.programs)
        self._rebuild()
        self._roster = self._new_roster()
        self._work()

    def _new_roster(self, *, turns: bool = True) -> Roster:
        return Roster(
            [(self._pipelines[lane.name], *self._waiting(lane.name)) for lane in self._quick_first()],
            jobs=self._crew.jobs,
            time_left=self._time_to_begin,
            grace=self._grace,
            in_order=self._in_order,
            ready=lambda lane: self._crew.ready(lane.target, lane.form),
            turns=turns,
            behind=lambda lane: self._judged[lane.name] < max(EARLY, self._plan.least),
        )

    def _closed(self, hunt: Hunt) -> HuntResult:
        """Close a hunt that was killed after its time was over, without starting a compiler."""
        with locked(self._store, hunt):
            self._log.leave_unexamined(hunt)
            self._log.finish(hunt)
        so_far = hunt_so_far(self._store, hunt)
        over = f"its time is over: it has run for {hunt.seconds:.0f} s of {self._plan.seconds:.0f} s"
        return replace(so_far, programs={**dict.fromkeys(self._plan.targets, 0), **so_far.programs}, no_time=over)

    def _summed_up(self, hunt: Hunt) -> HuntResult:
        """Return the result of the whole hunt, including what came before a resumption."""
        now = self._result
        so_far = now
        with closing_step(now.failed_steps, "reading what the hunt brought", "only what it holds in memory is shown"):
            so_far = hunt_so_far(self._store, hunt)
        return replace(
            so_far,
            bugs={**so_far.bugs, **{name: bug for name, bug in now.bugs.items() if name not in so_far.bugs}},
            not_reduced={**so_far.not_reduced, **now.not_reduced},
            programs={name: so_far.programs.get(name, 0) for name in self._lanes},
            new=now.new,
            internal_errors=now.internal_errors,
            no_more=now.no_more,
            stopped=now.stopped,
            broken=now.broken,
            failed_steps=now.failed_steps,
        )

    def _sighted(self, hunt: Hunt) -> dict[str, Bug]:
        return {name: self._store.bug(name) for name in self._log.sightings(hunt)}

    def _lanes_in_time(self) -> tuple[list[Lane], list[Skipped]]:
        before = self._pool.deadline
        self._pool.deadline = time.monotonic() + self._time_left() + self._grace
        try:
            return self._opener.open()
        except PoolExpired as error:
            raise NothingHunted(
                f"The budget of {self._plan.seconds:.0f} s ended while the frameworks were being imported;"
                " give more with --budget."
            ) from error
        finally:
            self._pool.deadline = before

    def _missed(self, form: str, generator: str, reason: str) -> None:
        for lane in self._lanes.values():
            if lane.form == form:
                self._listener(GeneratorStopped(lane.name, generator, reason))

    def _rebuild(self) -> None:
        """Restore the state of the lanes from their stored turns."""
        for turn in self._log.turns(self._hunt):
            if turn.lane in self._lanes and not turn.body.again:
                self._absorb(self._lanes[turn.lane], turn)
                self._pipelines[turn.lane].rebuild(turn)
                self._lanes[turn.lane].timed(turn.number, turn.body.seconds, turn.body.programs)

    @property
    def _in_order(self) -> bool:
        return bool(self._plan.programs)

    def _waiting(self, lane: str) -> tuple[int, int]:
        """Return how many suspects of a lane wait, as (to be examined at once, can wait)."""
        each = Counter(suspect.body.new for suspect in self._log.waiting(self._hunt, lane))
        return self._counted(each)

    def _counted(self, suspects: Counter[bool]) -> tuple[int, int]:
        """Split suspects into those to examine at once and those that can wait. None can wait if they are examined in
        order."""
        together = self._in_order or self._catching_up
        return (suspects.total(), 0) if together else (suspects[True], suspects[False])

    def _peers(self, form: str, all_of_them: bool) -> list[Target]:
        """Return the targets of one form whose opinions can be asked: all, or only those already at work, since
        starting a compiler for an opinion takes long."""
        lanes = [lane for lane in self._lanes.values() if lane.form == form]
        able = [lane for lane in lanes if lane.name not in self._given_up]
        return [lane.target for lane in able if all_of_them or lane.turns or lane.name in self._catching_up]

    def _quick_first(self) -> list[Lane]:
        """Return the lanes in the order in which they are started, the quickest first."""
        return sorted(self._lanes.values(), key=lambda lane: start_seconds(lane.target, lane.form))

    # -- sharing the time --------------------------------------------------------------------------------------------

    def _work(self) -> None:
        lanes = [(lane.target, lane.form) for lane in self._quick_first()]
        if self._catching_up:  # the other lanes may not be needed
            lanes = [(lane.target, lane.form) for lane in self._quick_first() if lane.name in self._catching_up]
        self._crew.begin(lanes, self._plan.plugins, lambda: not self._roster.stopped)
        threads = [threading.Thread(target=self._serve, name=f"hunter {n}") for n in range(self._crew.jobs)]
        for thread in threads:
            thread.start()
        try:
            self._wait_for(threads)
        except BaseException:  # Ctrl-C too: the threads must end before the error is raised on
            self._roster.stop()
            self._wait_for(threads, at_once=True)
            raise
        if self._failure:
            raise self._failure

    def _wait_for(self, threads: Sequence[threading.Thread], at_once: bool = False) -> None:
        """Wait until all threads have ended. Work that still runs after the end of the budget, or `at_once`, is
        interrupted. Half of the grace period is for this, the other half for waiting suspects (`_match_waiting`)."""
        while running := [thread for thread in threads if thread.is_alive()]:
            over = self._time_left() < -self._grace / 2
            if at_once or over:
                self._cut = self._cut or (over and not at_once)
                self._roster.stop()
                if self._author:
                    self._author.close()
                self._pool.interrupt()
                self._crew.interrupt()
            running[0].join(0.5)  # waiting so long for each thread would take far too long

    @property
    def _grace(self) -> float:
        return min(GRACE, SHARE_OF_GRACE * self._plan.seconds)

    def _time_left(self) -> float:
        more = (OVERRUN - 1) * self._plan.seconds if self._needs_more() else 0.0
        return self._limit + more - (time.monotonic() - self._started)

    def _needs_more(self) -> bool:
        """True if a target that can run more programs has fewer judged ones than the plan asks for."""
        able = self._lanes.keys() - self._given_up
        return any(self._judged[name] < self._plan.least for name in able)

    def _time_to_begin(self) -> float:
        """Return the seconds left for turns and suspects; the end of the time is kept for reducing bugs."""
        reducing = self._plan.seconds >= LEAST_TO_REDUCE and self._result.bugs
        return self._time_left() - (SHARE_OF_REDUCING * self._plan.seconds if reducing else 0.0)

    def _serve(self) -> None:
        """Take tasks from the roster and do them, until there are none left."""
        while (task := self._roster.take()) is not None:
            suspects: Counter[bool] = Counter()
            try:
                with one_order(task.place_time):
                    suspects = self._do(task)
            except PoolInterrupted:
                self._roster.stop()
            except BaseException as error:
                self._failure = self._failure or error
                self._roster.stop()
            finally:
                new, repeated = self._counted(suspects)
                self._roster.finish(task, new=new, repeated=repeated)

    def _do(self, task: LaneTask) -> Counter[bool]:
        """Do a task; return how many suspects it brought, by whether they seem new."""
        try:
            if task.work is LaneWork.TURN:
                return self._turn(task.lane, task.pieces)
            together = self._in_order or self._catching_up
            self._examine(task.lane, new=None if together else task.work is LaneWork.NEW_SUSPECT)
        except WorkerStartError as error:
            self._retire(task.lane, f"cannot start: {error}")
        return Counter()

    def _end(self, lane: Lane) -> None:
        """Note that the lane has no further turns, including those beyond its last one that an earlier limit cut
        short."""
        self._log.end_lane(self._hunt, lane.name, self._pipelines[lane.name].asked)
        self._retire(lane)

    def _retire(self, lane: Lane, reason: str = "") -> None:
        self._roster.retire(lane, at_once=bool(reason))
        with self._lock:
            known = lane.name in self._given_up
            if reason and not known:
                self._given_up.add(lane.name)
                self._result.stopped[lane.name] = reason
        if reason and not known:
            self._listener(LaneStopped(lane.name, reason))

    # -- one turn ----------------------------------------------------------------------------------------------------

    def _turn(self, lane: Lane, pieces: int) -> Counter[bool]:
        """Screen one batch, and store its outcome once all turns before it are stored. Ends the lane if it has no
        further turn."""
        pipeline = self._pipelines[lane.name]
        asked = pipeline.ask(self._plan.programs, lane.done_in(self._time_to_begin()))
        if asked is None:
            self._end(lane)
            return Counter()
        suspects: Counter[bool] = Counter()

        def write(outcome: _TurnOutcome) -> Turn:
            turn, found = self._written(lane, outcome)
            suspects.update(found)
            return turn

        pipeline.finish(asked, self._carried_out(lane, asked, pieces), write)
        self._look_ahead(lane)
        return suspects

    def _carried_out(self, lane: Lane, asked: AskedTurn, pieces: int) -> _TurnOutcome:
        self._busy, started = True, time.monotonic()
        order = TurnOrder(lane.target, lane.form, asked.requests, self._options, asked.heard, pieces)
        results: list[Screened] = []
        tries: tuple[ModelTry, ...] = ()
        try:
            if self._author and any(request.generator == LLM for request in asked.requests):
                results, tries = self._authored(self._author, lane, order)
            else:
                results = self._crew.screen(order)
        except PoolInterrupted:
            if not self._cut:
                raise
            results = []
        except DriftlineError:
            raise
        except Exception as error:  # a fault of Driftline ends only this turn, and is reported
            if no_room(error):
                raise
            return _TurnOutcome(asked, time.monotonic() - started, error=_in_full(error))
        if len(results) < len(asked.requests) and not self._cut:  # the turn is repeated when the hunt is resumed
            raise PoolInterrupted("the turn was interrupted")
        seconds = time.monotonic() - started
        lane.timed(asked.number, seconds, len(results))
        return _TurnOutcome(asked, seconds, results, tries)

    def _written(self, lane: Lane, outcome: _TurnOutcome) -> tuple[Turn, Counter[bool]]:
        """Store the outcome of a turn; return the stored turn and the number of its suspects. A turn lost by a fault of
        Driftline is counted as lost, and the lane continues with the next."""
        broken = self._is_broken(lane, outcome.results)
        if outcome.error or broken:
            self._result.internal_errors += [outcome.error] if outcome.error else []
            arms = tuple((*arm, count, 0.0) for arm, count in outcome.asked.arms.items())
            counts = {"broken" if broken else "internal": len(outcome.asked.requests)}
            body = TurnBody(counts=counts, arms=arms)
        else:
            self._result.internal_errors += [one.internal_error for one in outcome.results if one.internal_error]
            body = replace(lane.summarise(outcome.results, outcome.seconds), tries=outcome.tries)
            body = replace(body, cut=outcome.asked.short or len(outcome.results) < len(outcome.asked.requests))
        turn = Turn(lane.name, outcome.asked.number, body)
        if self._cut and not outcome.results and not outcome.error:
            self._not_done.setdefault(lane.name, []).append(turn)
            return turn, Counter()
        for earlier in self._not_done.pop(lane.name, ()):  # a hunt that is given more time begins with these turns
            self._log.add_turn(self._hunt, earlier, ())
            self._absorb(lane, earlier)
        suspects = [] if broken else list(_suspects(lane, outcome.results, set(body.keys)))
        self._log.add_turn(self._hunt, turn, suspects, time.monotonic() - self._started)
        self._absorb(lane, turn)
        lane.failures = lane.failures + 1 if outcome.error else 0
        if lane.failures >= MOST_FAILURES:
            self._retire(lane, "Driftline itself failed on it, again and again")
        if not outcome.error:
            self._listener(TurnDone(lane.name, turn.number, body.counts, body.seconds))
        return turn, Counter(suspect.new for suspect in suspects)

    def _is_broken(self, lane: Lane, results: Sequence[Screened]) -> bool:
        """True if the target of a lane is broken or unreliable, so that its failures are not bugs of programs. It is
        tested when it fails before any program passed, and once when it fails often."""
        errors = sum(map(is_error, results))
        often = errors >= OFTEN * len(results) and lane.name not in self._reliable
        if any(result.judgement == "pass" for result in results):
            self._sound.add(lane.name)
        if not errors or (lane.name in self._sound and not often):
            return lane.name in self._result.broken
        if lane.name not in self._result.broken:
            order = TurnOrder(lane.target, lane.form, trivial_requests(lane.form), self._options)
            why = why_broken(self._crew.screen(order))
            if not why:
                self._sound.add(lane.name)
                self._reliable.add(lane.name)
                return False
            self._result.broken.append(lane.name)
            self._retire(lane, why)
        return True

    def _authored(self, author: Author, lane: Lane, order: TurnOrder) -> tuple[list[Screened], tuple[ModelTry, ...]]:
        """Let the author write the programs of a turn, screen them, and return the results and the records of the
        model's answers."""
        plan = self._plan
        with Screening(
            self._pool,
            lane.form,
            seed=plan.seed,
            plugins=plan.plugins,
            timeout=plan.timeout,
            shards=order.pieces,
            explain=False,
        ) as screening:
            written = author.write(lane.name, lane.target, order.requests, screening)
            results = screening.screen(written.requests, lane.target, heard=order.heard, made=written.made)
            return results, written.tries(results)  # reads the files of the screening

    def _absorb(self, lane: Lane, turn: Turn) -> None:
        lane.absorb(turn)
        self._judged[lane.name] += sum(turn.body.counts.get(judgement, 0) for judgement in ("pass", "fail"))
        if self._author is None or LLM not in lane.arms or LLM in lane.closed:
            return
        self._author.absorb(lane.name, turn.body.tries)
        if why := self._author.stopped(lane.name):
            lane.closed.add(LLM)
            self._result.no_more[f"{LLM} for {lane.name}"] = why
            self._listener(GeneratorStopped(lane.name, LLM, why))

    def _look_ahead(self, lane: Lane) -> None:
        """Request the programs of the next turn from the model ahead of time. Ends the lane if its generators are
        exhausted."""
        if lane.exhausted:
            why = self._result.no_more.get(f"{LLM} for {lane.name}", "every operator was tried alone in every way")
            self._end(lane)
            self._result.stopped.setdefault(lane.name, f"no generator is left that makes programs: {why}")
        elif self._author and LLM in lane.arms:
            self._author.ask_ahead(lane.name, self._pipelines[lane.name].preview(self._plan.programs))

    def _examine(self, lane: Lane, *, new: bool | None) -> None:
        """Examine the suspect that would be worst for a user, of those that no other thread examines; in a hunt by
        numbers, a suspect of the first turn that has any."""
        with self._lock:
            most = len(self._examining) + 1
            waiting = self._log.waiting(self._hunt, lane.name, new=new, most=most, by_turn=self._in_order)
            suspect = next((one for one in waiting if one.id not in self._examining), None)
            if suspect is None:
                return
            self._examining.add(suspect.id)
            self._busy = True
        try:
            self._settle(suspect, self._examined(lane, suspect))
        finally:
            with self._lock:
                self._examining.discard(suspect.id)

    def _match_waiting(self) -> None:
        """Match the unexamined suspects against the known bugs, in the rest of the grace period."""
        before = self._pool.deadline
        self._pool.deadline = time.monotonic() + self._time_left() + self._grace
        try:
            for lane in self._lanes.values():
                if lane.name not in self._given_up:
                    self._match_lane(lane)
        finally:
            self._pool.deadline = before

    def _match_lane(self, lane: Lane) -> None:
        """Match the waiting suspects of one lane. An error here does not stop the other lanes: the suspects only stay
        unexamined."""
        said = f"matching the waiting suspects of {lane.name}"
        with closing_step(self._result.failed_steps, said, "they stay unexamined"):
            waiting = [s for new in (True, False) for s in self._log.waiting(self._hunt, lane.name, new=new)]
            with contextlib.suppress(PoolInterrupted):  # the time is over
                for target, suspects in by_target(lane, waiting).items():
                    for suspect, examined in self._crew.match(suspects, target, lane.form, self._options):
                        self._settle(suspect, examined)

    def _reduce(self, *, resumed: bool) -> None:
        """Reduce the bugs found, in the rest of the time. A hunt by numbers does so only when it is resumed with
        nothing else to do: the bugs met on the way would depend on the clock."""
        if self._in_order and not (resumed and not self._busy):
            return
        until = self._started + (self._limit if math.isfinite(self._limit) else 0.0)
        if not math.isfinite(self._limit):
            until = time.monotonic() + CATCH_UP
        if not isinstance(self._crew, LocalCrew) or until <= time.monotonic():
            return
        said = "reducing what was found"
        with closing_step(self._result.failed_steps, said, "driftline reduce makes one bug at a time smaller"):
            names = not_reduced(self._store, self._hunt)
            before = self._pool.deadline
            self._pool.deadline = until + self._grace
            try:
                checker = Checker(self._pool, self._crew.jobs)
                found = reduce_bugs(
                    checker,
                    self._store,
                    names,
                    until=until,
                    library=self._crew.library,
                    listener=self._listener,
                )
            finally:
                self._pool.deadline = before
            self._result.failed_steps += found.failed_steps
            self._result.not_reduced = found.left
            for bug in found.met.values():
                self._result.add(bug, new=True)
                self._listener(BugSeen(bug, new=True))

    def _examined(self, lane: Lane, suspect: Suspect) -> ExaminedSuspect:
        try:
            request = decode(ProgramRequest, suspect.body.request)
            return self._crew.examine(
                SuspectOrder(
                    lane.target_of(request),
                    lane.form,
                    request,
                    self._options,
                    tuple(self._peers(lane.form, all_of_them=False)),
                    tuple(self._peers(lane.form, all_of_them=True)),
                )
            )
        except (PoolInterrupted, DriftlineError):
            raise
        except Exception as error:  # a fault of Driftline ends only this suspect, and is reported
            if no_room(error):
                raise
            self._result.internal_errors.append(_in_full(error))
            return ExaminedSuspect("unclear", reason="Driftline itself failed")

    def _settle(self, suspect: Suspect, examined: ExaminedSuspect) -> None:
        self._log.settle(suspect, examined.state, [bug.id for bug, _ in examined.bugs], examined.reason)
        for bug, new in examined.bugs:
            with self._lock:  # two suspects examined at the same time may both be the first of one bug
                first = new and bug.id not in self._result.bugs
                self._result.add(bug, new=new)
            self._listener(BugSeen(bug, first))


def by_target(lane: Lane, suspects: Iterable[Suspect]) -> dict[Target, list[Suspect]]:
    """Group suspects by the target on which they failed: some need an option besides those of their lane."""
    groups: dict[Target, list[Suspect]] = {}
    for suspect in suspects:
        groups.setdefault(lane.target_of(decode(ProgramRequest, suspect.body.request)), []).append(suspect)
    return groups


def _suspects(lane: Lane, results: Sequence[Screened], new_keys: set[str]) -> Iterator[SuspectBody]:
    """Yield a record of each failure, to be examined later. Of several with one key, only the first counts as new."""
    for result in results:
        if result.judgement == "fail":
            key = failure_key(result)
            request = encode(ProgramRequest, result.request)
            size = len(result.coverage)
            origin = result.made.origins[result.sample].partition(" ")[0] if result.made else ""
            yield SuspectBody(
                request,
                key in new_keys,
                result.kind,
                result.stage,
                result.reason[:300],
                operators=size,
                severity=severity(result.kind, ordinary=origin == ORDINARY),
                origin=origin,
            )
            new_keys.discard(key)


def _in_full(error: Exception) -> str:
    """Return the text of a fault of Driftline, with its traceback."""
    return str(error) if isinstance(error, InternalError) else "".join(traceback.format_exception(error))


def _environment(lanes: Sequence[Lane], left_out: Sequence[str]) -> dict[str, Any]:
    return {
        "versions": {lane.name: lane.target.version or BACKENDS.get(lane.target.backend).version() for lane in lanes},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "driftline": __version__,
        "left_out": list(left_out),
    }
