"""Do all sightings of a bug behave alike? Each is examined again by itself and put to the same experiments.

A hunt examines the first sightings of a bug and counts the others by their name. Here every one of them goes from the
program of its suspect through the whole triage again, in an empty store, as if it were the first. The part that came
out is then tried in the compiler's plainest form and in another dtype, and held against the causes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _lines import append_line, read_lines

from driftline.backends import BACKENDS, resolve
from driftline.campaign.check.experiments import ask
from driftline.campaign.check.forms import FORM_OF
from driftline.campaign.explain.failing import find_failing
from driftline.campaign.hunt.plan import HuntPlan
from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.examination import Triage
from driftline.causes import Question
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.target import Target
from driftline.core.wire import decode
from driftline.execute.pool import Pool
from driftline.report.annotated import causes_of
from driftline.store import Store
from driftline.store.hunts import Hunt, HuntLog

OFTEN = 3  # a bug that was seen more often is tested
_OTHER = {"float32": "float64", "float64": "float32", "float16": "float32", "bfloat16": "float32"}


@dataclass(frozen=True)
class Replayed:
    """One sighting, examined again."""

    seed: str
    bug: str
    suspect: int
    names: tuple[str, ...]  # of the bugs that it is today
    causes: tuple[str, ...] = ()
    decisive: tuple[str, ...] = ()  # what no two sightings of one cause should answer differently
    beside: tuple[str, ...] = ()  # what depends on the inputs too
    told: str = ""  # why there is nothing else

    @property
    def same(self) -> bool:
        return self.bug in self.names


def replay(stores: Sequence[Path], often: int, most: int, only: str, out: Path | None) -> list[Replayed]:
    """Every sighting of every bug that was seen more than `often` times; `most` of each, spread over the hunt. Rows
    that are in `out` are taken from there."""
    rows = [_read(line) for line in read_lines(out)] if out else []
    known = {(row.seed, row.bug, row.suspect) for row in rows}
    with Pool() as pool:
        checker = Checker(pool, jobs=1)
        for path in stores:
            for row in _of_store(path, checker, often, most, only, known):
                rows.append(row)
                if out:
                    append_line(out, asdict(row))
    return rows


def _read(told: dict[str, Any]) -> Replayed:
    return Replayed(**{key: tuple(value) if isinstance(value, list) else value for key, value in told.items()})


def _of_store(
    path: Path, checker: Checker, often: int, most: int, only: str, known: set[tuple[str, str, int]]
) -> Iterator[Replayed]:
    with Store.open(path) as store:
        log = HuntLog(store)
        (hunt,) = log.hunts()
        chosen = [bug for bug, seen in log.sightings(hunt).items() if seen > often and only in bug]
        for bug in sorted(chosen):
            rows = store.query("SELECT id, lane, body, bug FROM suspects WHERE bug LIKE ? ORDER BY id", (f"%{bug}%",))
            for number, lane, body, _ in _spread(rows, most):
                if (str(hunt.plan["seed"]), bug, number) not in known:
                    yield _replayed(hunt, bug, number, lane, json.loads(body)["request"], checker)


def _spread(rows: Sequence[Any], most: int) -> Sequence[Any]:
    if not most or len(rows) <= most:
        return rows
    return [rows[round(at * (len(rows) - 1) / max(most - 1, 1))] for at in range(most)]


def _replayed(hunt: Hunt, bug: str, number: int, lane: str, body: Any, checker: Checker) -> Replayed:
    plan = HuntPlan.from_json(hunt.plan)
    options = CheckOptions(seed=plan.seed, timeout=plan.timeout)
    seed, target = str(plan.seed), Target.parse(lane)
    form = _form(target)
    witnesses = tuple(one for one in map(Target.parse, plan.targets) if _form(one) == form)
    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "store") as store:
        try:
            order = SuspectOrder(target, form, decode(ProgramRequest, body), options, (), witnesses)
            seen = Triage(checker, store).examine(order)
            names = tuple(sorted(one.id for one, _ in seen.bugs))
            if bug not in names:
                return Replayed(seed, bug, number, names, told=f"{seen.state}: {seen.reason}")
            failing = find_failing(bug, store, checker)
            causes = tuple(cause.id for cause in causes_of(failing.bug))
            found = failing.finding.evidence
            answers = [
                f"{asked}: {_words(ask(checker, failing.case, target, asked))}" for asked in _asked(failing.case)
            ]
            ending = [f"{found.exception}: {found.message}"] if found.exception else []
            decisive = (*answers, *ending, f"policies: {' '.join(found.policies) or 'none'}")
            beside = (f"faults: {' '.join(found.faults) or 'none'}", f"needs: {' '.join(found.needs) or 'nothing'}")
            return Replayed(seed, bug, number, names, causes, decisive, beside)
        except (DriftlineError, InternalError) as error:
            return Replayed(seed, bug, number, (), told=str(error).splitlines()[-1])


def _form(target: Target) -> str:
    return next((FORM_OF[form] for form in BACKENDS.get(target.backend).accepts if form in FORM_OF), "")


def _asked(case: Case) -> Iterator[Question]:
    """The plainest form of the compiler, and another dtype."""
    target = case.targets[0]
    plainest = resolve(target).plainest(target.told) or {}
    changed = [f"{name}={value}" for name, value in plainest.items() if target.told.get(name) != value]
    if len(changed) == 1:
        yield Question("with", changed[0])
    dtypes = {spec.dtype for spec in case.program.inputs} & set(_OTHER)
    if len(dtypes) == 1:
        yield Question("in", _OTHER[dtypes.pop()])


def _words(answer: bool | None) -> str:
    return {True: "yes", False: "no", None: "not tried"}[answer]


def table(rows: Sequence[Replayed]) -> tuple[str, list[str]]:
    """The bugs as a table, and those whose sightings differ in what should be the same."""
    lines = ["| seed | bug | replayed | the same bug | causes | differ in | inputs |", "|---|---|---|---|---|---|---|"]
    differing = []
    for seed, bug in sorted({(row.seed, row.bug) for row in rows}):
        mine = [row for row in rows if (row.seed, row.bug) == (seed, bug)]
        same = [row for row in mine if row.same]
        causes = sorted({" and ".join(row.causes) or "none" for row in same})
        told = _differences([row.decisive for row in same])
        if told or len(causes) > 1:
            differing.append(bug)
        beside = _differences([row.beside for row in same])
        lines.append(
            f"| {seed} | {bug} | {len(mine)} | {len(same)} | {'; '.join(causes)} | {'; '.join(told) or 'nothing'} |"
            f" {'; '.join(beside)} |"
        )
    return "\n".join(lines), differing


def _differences(answers: Sequence[tuple[str, ...]]) -> list[str]:
    """What one sighting says to a question and another one denies; what could not be tried says nothing."""
    said: dict[str, set[str]] = {}
    for one in answers:
        for text in one:
            question, _, answer = text.partition(": ")
            if answer != "not tried":
                said.setdefault(question, set()).add(answer)
    return [f"{question}: {' or '.join(sorted(found))}" for question, found in said.items() if len(found) > 1]
