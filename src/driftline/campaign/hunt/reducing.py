"""Reduces the bugs of a hunt after its programs: as many as the time allows, the worst first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from driftline.campaign.explain.budget import NoTimeLeft
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.causes import Library
from driftline.checking.checker import Checker
from driftline.core.closing import FailedStep, closing_step
from driftline.core.errors import DriftlineError
from driftline.core.severity import is_on_ordinary_values, severity
from driftline.core.verdict import COSTS, Status
from driftline.diagnose.reduce.reducer import NotReducible
from driftline.diagnose.reduce.search import BudgetEnded
from driftline.events import Listener, Working, ignore
from driftline.execute.pool import PoolExpired
from driftline.report.hunts import NO_TIME
from driftline.store import Bug, Store
from driftline.store.diagnoses import Diagnoses
from driftline.store.hunts import Hunt, HuntLog
from driftline.store.reductions import Reductions

EACH = 30.0  # least seconds for a bug
LEAST = 3.0  # least seconds with which a reduction is started
_STEP = "not reducible"  # the key under which the store notes that a reduction was tried and failed


@dataclass
class ReducedBugs:
    """The bugs that the reductions met, and the bugs that are not reduced."""

    left: dict[str, str] = field(default_factory=dict)  # bugs that are not reduced, and why
    met: dict[str, Bug] = field(default_factory=dict)  # other bugs, by id
    failed_steps: list[FailedStep] = field(default_factory=list)


def not_reduced(store: Store, hunt: Hunt) -> list[str]:
    """Return the ids of the bugs of a hunt that were not reduced yet, in the order in which they will be."""
    reductions, diagnoses, sightings = Reductions(store), Diagnoses(store), HuntLog(store).sightings(hunt)
    bugs = [store.bug(name) for name in sightings if store.has_bug(name)]
    wanted = [bug for bug in bugs if bug.fingerprint.kind not in COSTS and bug.status is not Status.FIXED]
    wanted = [bug for bug in wanted if not reductions.of(bug.id) and not diagnoses.of(bug.id, _STEP)]

    def rank(bug: Bug) -> tuple[int, int, str]:
        ordinary = not bug.findings or is_on_ordinary_values(bug.findings[0].evidence, plain_inputs=True)
        return severity(bug.fingerprint.kind, ordinary), -sightings[bug.id], bug.id

    return [bug.id for bug in sorted(wanted, key=rank)]


def reduce_bugs(
    checker: Checker,
    store: Store,
    bugs: Sequence[str],
    *,
    until: float,
    library: Library | None = None,
    listener: Listener = ignore,
) -> ReducedBugs:
    """Reduce bugs one after the other until the moment `until` (of the monotonic clock). The store keeps the answers of
    an unfinished reduction."""
    found = ReducedBugs()
    known = {bug.id for bug in store.bugs()}
    for number, name in enumerate(bugs):
        left = until - time.monotonic()
        if left < LEAST:
            found.left[name] = NO_TIME
            continue
        listener(Working(f"reducing {name}", f"{number + 1} of {len(bugs)}"))
        found.left[name] = "Driftline itself failed"
        with closing_step(found.failed_steps, f"reducing {name}", "the bug is kept as it was found"):
            budget = min(left, max(EACH, left / (len(bugs) - number)))
            reason, met = _reduced(checker, store, name, budget, library, listener)
            found.met |= {bug.id: bug for bug in met if bug.id not in known}
            if reason:
                found.left[name] = reason
            else:
                del found.left[name]
    return found


def _reduced(
    checker: Checker, store: Store, name: str, budget: float, library: Library | None, listener: Listener
) -> tuple[str, Sequence[Bug]]:
    """Reduce one bug; return why that failed (or an empty string) and other bugs that the reduction met."""
    try:
        failing = find_failing(name, store, checker)
        return "", reduce_failing(checker, store, failing, budget=budget, library=library, listener=listener).others
    except (BudgetEnded, PoolExpired, NoTimeLeft):
        return NO_TIME, ()
    except NotReducible as error:
        Diagnoses(store).save(name, _STEP, {"reason": str(error)})
        return str(error), ()
    except DriftlineError as error:
        return str(error), ()
