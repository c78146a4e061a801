"""The hunt: lanes of programs, each on its own compiler, until the budget is spent.

The time goes evenly to all targets, so a quick compiler sees more programs than a slow one. Every turn is written to
the store when it is done, and every suspect when it is settled; what a killed hunt had in hand is done again, and
nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import platform
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from driftline import __version__
from driftline.backends import BACKENDS
from driftline.backends.base import Backend
from driftline.campaign.events import BugSeen, LaneStopped, Listener, Started, TurnDone
from driftline.campaign.lane import Lane
from driftline.campaign.session import require_target
from driftline.campaign.triage import Examined, Triage
from driftline.checking.batch import Screening
from driftline.checking.checker import Checker, Skipped
from driftline.checking.kinds import worker_for_framework
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.target import Target
from driftline.execute.pool import Pool, PoolInterrupted, WorkerStartError
from driftline.generate import GENERATORS
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.table import OPERATORS
from driftline.store import Bug, Store
from driftline.store.hunts import Hunt, HuntLog, Suspect, Turn

FORM_OF = {"onnx": "onnx", "source:torch": "torch", "source:jax": "jax"}  # what a backend takes -> what we write
TRIAGE_SHARE = 0.5  # of a lane's time, for suspects that look like what was seen before
MOST_FAILURES = 3  # of ours, in one lane
GRACE = 15.0  # seconds after the end of the budget for what is still running
REPEATS = 4  # such suspects examined after one turn
# Not hunted unless asked for by name, and why.
LEFT_OUT = {
    "aot_eager": "aot_eager_decomp does the same and more",
    "aotinductor": "it compiles like inductor, and takes half a minute for each program",
}


@dataclass(frozen=True)
class HuntPlan:
    """What was asked for; stored with the hunt, so that it can be resumed."""

    targets: tuple[str, ...]
    generators: tuple[str, ...]
    inputs: tuple[str, ...] = ("random", "specials", "boundary")
    seed: int = 0
    seconds: float = 600.0  # 0: no limit
    programs: int = 0  # for each target; 0: no limit
    timeout: float = 60.0
    plugins: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "targets": list(self.targets),
            "generators": list(self.generators),
            "inputs": list(self.inputs),
            "seed": self.seed,
            "seconds": self.seconds,
            "programs": self.programs,
            "timeout": self.timeout,
            "plugins": list(self.plugins),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> HuntPlan:
        known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return HuntPlan(**known)


def form_of(backend: Backend) -> str | None:
    """The language in which programs for this backend are written."""
    return next((FORM_OF[form] for form in backend.accepts if form in FORM_OF), None)


def choose_lanes(wanted: Sequence[Target] | None) -> tuple[list[Target], list[Skipped]]:
    """The targets to hunt on: those asked for, or all that are here and for which programs can be written."""
    if wanted is not None:
        for target in wanted:
            require_target(target)
            if form_of(BACKENDS.get(target.backend)) is None:
                raise DriftlineError(
                    f"No generator writes programs for {target}; it can only be given programs with driftline check."
                )
        return list(wanted), []
    chosen, skipped = [], []
    for name in BACKENDS:
        target = Target.parse(name)
        try:
            backend = BACKENDS.get(name)
        except DriftlineError as error:
            skipped.append(Skipped(target, str(error)))
            continue
        found = backend.installed()
        if backend.reference or name.startswith("dynamo:"):
            continue
        if name in LEFT_OUT:
            skipped.append(Skipped(target, LEFT_OUT[name]))
        elif form_of(backend) is None:
            skipped.append(Skipped(target, "no generator writes programs for it yet"))
        elif not found.available:
            skipped.append(Skipped(target, f"{found.reason}; {backend.install_command}"))
        else:
            chosen.append(target)
    if not chosen:
        raise DriftlineError("No compiler is available to hunt on; driftline doctor says what to install.")
    return chosen, skipped


@dataclass
class HuntResult:
    """What a hunt brought."""

    hunt: Hunt
    bugs: dict[str, Bug] = field(default_factory=dict)  # those seen, by id
    new: list[str] = field(default_factory=list)  # ids of those that the store did not know before
    programs: dict[str, int] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    internal_errors: list[str] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)


class Hunter:
    """Runs one hunt. `jobs` lanes have their turn at the same time."""

    def __init__(self, pool: Pool, store: Store, plan: HuntPlan, *, jobs: int = 2, listener: Listener) -> None:
        self._pool = pool
        self._store = store
        self._plan = plan
        self._jobs = jobs
        self._listener = listener
        self._log = HuntLog(store)
        self._checker = Checker(pool, jobs=1)
        self._options = CheckOptions(seed=plan.seed, timeout=plan.timeout, plugins=plan.plugins)
        self._free = threading.Condition()
        self._busy: set[str] = set()
        self._spent: dict[str, float] = {}
        self._stopping = False
        self._failure: BaseException | None = None

    # -- from beginning to end ---------------------------------------------------------------------------------------

    def run(self, resume: Hunt | None = None, skipped: Sequence[Skipped] = ()) -> HuntResult:
        lanes = self._lanes()
        hunt = resume or self._log.begin(self._plan.to_json(), _environment(lanes))
        with _locked(self._store, hunt):
            before = sum(self._rebuilt(lanes, hunt))
            self._result = HuntResult(hunt)
            self._hunt = hunt
            self._started = time.monotonic() - hunt.seconds
            self._listener(
                Started(
                    tuple(lane.name for lane in lanes),
                    tuple(skipped),
                    self._plan.seconds,
                    self._plan.programs,
                    before,
                )
            )
            self._lanes_left = {lane.name: lane for lane in lanes}
            self._triages = {
                lane.name: Triage(self._checker, self._store, self._options, self._peers) for lane in lanes
            }
            self._work()
            for suspect in self._log.waiting(hunt):
                self._log.settle(suspect, "unexamined")
            self._log.spend(hunt, time.monotonic() - self._started)
            self._log.finish(hunt)
        self._result.hunt = self._log.hunt(hunt.id)
        self._result.programs = {lane.name: lane.programs for lane in lanes}
        self._result.settled = self._log.settled(hunt)
        return self._result

    def _lanes(self) -> list[Lane]:
        lanes = []
        arms: dict[str, dict[str, list[str]]] = {}
        changing = frozenset(name for name in self._plan.generators if GENERATORS.get(name).needs_base)
        for text in self._plan.targets:
            target = Target.parse(text)
            backend = BACKENDS.get(target.backend)
            form = form_of(backend)
            assert form
            if form not in arms:
                arms[form] = self._arms(form)
            if not arms[form]:
                raise DriftlineError(
                    f"None of the generators {', '.join(self._plan.generators)} writes {form} programs."
                )
            language = LANGUAGE[form]
            alone = {name: len(made.dtypes) for name, op in OPERATORS.items() if (made := op.form(language))}
            lane = Lane(target, form, self._plan.seed, backend.batch, arms[form], alone, self._plan.inputs, changing)
            lanes.append(lane)
        return lanes

    def _arms(self, form: str) -> dict[str, list[str]]:
        payload = {"form": form, "generators": list(self._plan.generators), "plugins": list(self._plan.plugins)}
        worker = worker_for_framework(form, self._plan.plugins)
        report = self._pool.run(worker, "driftline.checking.batch_tasks:arms", payload)
        if report.ending != "done":
            raise InternalError(f"the generators could not be listed: {report.ending} ({report.detail})\n{report.log}")
        return {name: found for name, found in report.result["arms"].items() if found}

    def _rebuilt(self, lanes: Sequence[Lane], hunt: Hunt) -> Iterator[int]:
        by_name = {lane.name: lane for lane in lanes}
        for turn in self._log.turns(hunt):
            if turn.lane in by_name:
                by_name[turn.lane].absorb(turn)
                yield 1

    def _peers(self, form: str, all_of_them: bool) -> list[Target]:
        """The targets of one form. To start a compiler just to hear its opinion takes long: those at work do."""
        lanes = list(self._lanes_left.values())
        return [lane.target for lane in lanes if lane.form == form and (all_of_them or lane.turns)]

    # -- sharing the time --------------------------------------------------------------------------------------------

    def _work(self) -> None:
        threads = [threading.Thread(target=self._serve, name=f"hunter {n}") for n in range(self._jobs)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(1.0)
                    if self._over(GRACE):
                        self._stop()
                        self._pool.interrupt()  # what is still running is not waited for
        except BaseException:
            self._stop()
            self._pool.interrupt()
            for thread in threads:
                thread.join()
            raise
        if self._failure:
            raise self._failure

    def _serve(self) -> None:
        """Take the lane that has had least, again and again."""
        while (lane := self._take()) is not None:
            started = time.monotonic()
            try:
                self._turn(lane)
                self._examine(lane, started)
            except WorkerStartError as error:
                self._retire(lane, f"cannot start: {error}")
            except PoolInterrupted:
                self._stop()
            except InternalError as error:
                self._failed(lane, str(error))
            except BaseException as error:
                self._failure = self._failure or error
                self._stop()
            with self._free:
                self._spent[lane.name] = self._spent.get(lane.name, 0.0) + time.monotonic() - started
                self._busy.discard(lane.name)
                self._free.notify_all()

    def _take(self) -> Lane | None:
        with self._free:
            while True:
                if self._stopping or self._over() or not self._lanes_left:
                    return None
                idle = [lane for lane in self._lanes_left.values() if lane.name not in self._busy]
                if idle:
                    lane = min(idle, key=lambda one: self._spent.get(one.name, 0.0))
                    self._busy.add(lane.name)
                    return lane
                self._free.wait(1.0)

    def _over(self, grace: float = 0.0) -> bool:
        return 0 < self._plan.seconds < time.monotonic() - self._started - grace

    def _stop(self) -> None:
        with self._free:
            self._stopping = True
            self._free.notify_all()

    def _failed(self, lane: Lane, error: str) -> None:
        """A fault of ours: the turn is counted as such, and the lane goes on with the next one."""
        self._result.internal_errors.append(error)
        empty = lane.summarise([], 0.0)
        turn = Turn(lane.name, lane.turns, {**empty, "counts": {"internal": lane.batch}})
        self._log.add_turn(self._hunt, turn, [])
        lane.absorb(turn)
        lane.failures += 1
        if lane.failures >= MOST_FAILURES:
            self._retire(lane, "Driftline itself failed on it, again and again")

    def _retire(self, lane: Lane, reason: str) -> None:
        with self._free:
            self._lanes_left.pop(lane.name, None)
            if reason:
                self._result.stopped[lane.name] = reason
        if reason:
            self._listener(LaneStopped(lane.name, reason))

    # -- one turn ----------------------------------------------------------------------------------------------------

    def _turn(self, lane: Lane) -> None:
        """Screen one batch and write down what came of it. A lane that has its number is done."""
        limit = self._plan.programs - lane.programs if self._plan.programs else lane.batch
        if limit <= 0:
            if not self._log.waiting(self._hunt, lane.name):
                self._retire(lane, "")
            return
        started = time.monotonic()
        requests, avoid = lane.requests(limit), lane.avoid
        plan = self._plan
        with Screening(
            self._pool,
            lane.form,
            seed=plan.seed,
            plugins=plan.plugins,
            timeout=plan.timeout,
            shards=max(1, self._jobs // len(self._lanes_left)),
        ) as screening:
            results = screening.screen(requests, lane.target, avoid)
        self._result.internal_errors += [result.internal_error for result in results if result.internal_error]
        body = lane.summarise(results, time.monotonic() - started)
        keys = set(body["keys"])
        suspects = []
        for result in results:
            if result.judgement == "fail":
                new = lane.key(result) in keys
                keys.discard(lane.key(result))
                suspects.append(
                    {"request": result.request, "avoid": avoid, "seed": plan.seed, "new": new, **_seen(result)}
                )
        turn = Turn(lane.name, lane.turns, body)
        self._log.add_turn(self._hunt, turn, suspects)
        self._log.spend(self._hunt, time.monotonic() - self._started)
        lane.absorb(turn)
        self._listener(TurnDone(lane.name, turn.number, body["counts"], body["seconds"]))

    def _examine(self, lane: Lane, started: float) -> None:
        """Look at the suspects: all that seem new, and of the others what time allows."""
        screened = time.monotonic() - started
        repeats = 0
        for suspect in sorted(self._log.waiting(self._hunt, lane.name), key=lambda one: not one.body["new"]):
            if self._stopping or self._over():
                return
            if not suspect.body["new"] and not self._plan.programs:
                examining = time.monotonic() - started - screened
                if repeats >= REPEATS or examining > TRIAGE_SHARE * (screened + examining):
                    return
                repeats += 1
            self._settle(suspect, self._examined(lane, suspect))

    def _examined(self, lane: Lane, suspect: Suspect) -> Examined:
        try:
            return self._triages[lane.name].examine(suspect, lane.target, lane.form)
        except InternalError as error:
            self._result.internal_errors.append(str(error))
            return Examined("unclear", reason="Driftline itself failed")

    def _settle(self, suspect: Suspect, examined: Examined) -> None:
        first = next((bug.id for bug, new in examined.bugs if new), examined.bugs[0][0].id if examined.bugs else "")
        self._log.settle(suspect, examined.state, first)
        for bug, new in examined.bugs:
            self._result.bugs[bug.id] = bug
            if new:
                self._result.new.append(bug.id)
            self._listener(BugSeen(bug, new))


def _seen(result: Any) -> dict[str, Any]:
    return {"kind": result.kind, "stage": result.stage, "reason": result.reason[:300]}


def _environment(lanes: Sequence[Lane]) -> dict[str, Any]:
    return {
        "versions": {lane.name: lane.target.version or BACKENDS.get(lane.target.backend).version() for lane in lanes},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "driftline": __version__,
    }


@contextlib.contextmanager
def _locked(store: Store, hunt: Hunt) -> Iterator[IO[str]]:
    """A hunt is run by one process at a time; the system takes the lock back when that process dies."""
    with open(store.path / f"hunt-{hunt.id}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DriftlineError(
                f"The hunt {hunt.id} in {store.path} is being run by another process; wait for it, or start a new hunt."
            ) from error
        yield file


def resumable(store: Store) -> tuple[Hunt, HuntPlan]:
    """The hunt to go on with."""
    hunt = HuntLog(store).unfinished()
    if hunt is None:
        raise DriftlineError(f"There is no unfinished hunt in {store.path}; leave out --resume to start one.")
    return hunt, HuntPlan.from_json(hunt.plan)
