"""Store slow programs as bugs, named by compiler, kind, operators and dtypes, with their measurements."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from driftline.campaign.check.stored import case_to_run
from driftline.core.case import Case
from driftline.core.errors import DriftlineError
from driftline.core.evidence import Evidence
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.identity import fingerprint_of
from driftline.core.target import Target
from driftline.core.titles import KEY as TITLE_FACTS
from driftline.core.verdict import Fingerprint, Judgement, Kind, Status
from driftline.core.wire import WireError, decode
from driftline.perf.check import Findings
from driftline.perf.comparison import Side
from driftline.perf.growth import LEAST_BYTES, LEAST_SECONDS
from driftline.perf.repeated import own_nodes
from driftline.perf.result import GrowthRow, PerfRow
from driftline.perf.words import growth_sentence, slow_sentence
from driftline.programs.operators import operators_of
from driftline.report.export.growing import export_growth
from driftline.report.export.script import Exported
from driftline.report.export.timing import export_timing
from driftline.report.title_facts import facts_of
from driftline.store import Bug, Finding, Store
from driftline.store.reductions import Reductions

KEY = "perf"  # where a finding keeps its measurement


@dataclass(frozen=True)
class SlowMeasurement:
    """The measurement that a finding of kind `slow` stores and a replay repeats."""

    row: PerfRow
    limit: float
    baseline: str  # the target of the other side
    baseline_case: str = ""  # of a twin: the case that holds it

    def to_json(self) -> dict[str, Any]:
        return {"slow": asdict(self)}


@dataclass(frozen=True)
class GrowthMeasurement:
    """The measurement that a finding of kind `slow-compile` or `memory` stores."""

    row: GrowthRow
    limit: float

    def to_json(self) -> dict[str, Any]:
        return {"growth": asdict(self)}


def slow_fingerprint(case: Case, target: Target) -> Fingerprint:
    return _fingerprint(case, target, Kind.SLOW)


@dataclass(frozen=True)
class StoredFindings(Findings):
    """Stores findings as bugs."""

    store: Store

    def slow(self, own: Side, other: Side, row: PerfRow, ratio: float) -> PerfRow:
        return replace(row, bug=record_slow(self.store, own, other, row, ratio).id)

    def growth(self, case: Case, target: Target, row: GrowthRow, exponent: float) -> GrowthRow:
        found = record_growth(self.store, case, target, row, exponent)
        return replace(row, bugs=tuple(bug.id for bug in found))


def record_slow(store: Store, own: Side, other: Side, row: PerfRow, limit: float) -> Bug:
    """Store the finding that a target is slow."""
    twin = own.case.program.digest != other.case.program.digest
    held = store.save_case(other.case.only(other.target)) if twin else ""
    kept = SlowMeasurement(row, limit, str(other.target), held)
    found = _CostFinding(Kind.SLOW, slow_sentence(row, limit), kept, row.measured[0].version)
    return _record(store, own.case, own.target, found)


def record_growth(store: Store, case: Case, target: Target, row: GrowthRow, limit: float) -> list[Bug]:
    """Store the findings about growth: compile time, memory, or both."""
    kept = GrowthMeasurement(row, limit)
    found = [_CostFinding(Kind(kind), growth_sentence(row, kind, limit), kept) for kind in row.found]
    return [_record(store, case, target, one) for one in found]


def measurement_of(bug: Bug, finding: Finding | None = None) -> SlowMeasurement | GrowthMeasurement:
    """Return the measurement of a stored finding, by default of the first finding of the bug."""
    held = (finding or bug.findings[0]).verdict.get(KEY)
    try:
        if isinstance(held, dict) and "slow" in held:
            return decode(SlowMeasurement, held["slow"])
        if isinstance(held, dict) and "growth" in held:
            return decode(GrowthMeasurement, held["growth"])
    except WireError as error:
        raise DriftlineError(f"The measurement of {bug.id} is damaged ({error}); measure the program anew.") from error
    raise DriftlineError(f"{bug.id} holds no measurement; it was not found by driftline perf.")


def timing_script(store: Store, bug: Bug) -> Exported:
    """Return a script that shows the finding, or the reason why there is none."""
    kept = measurement_of(bug)
    if isinstance(kept, SlowMeasurement) and kept.baseline_case:
        return Exported("", False, "only a program that is slow by itself has a script; driftline replay measures it")
    case_id, sentence = bug.findings[0].case_id, bug.summary
    smaller = Reductions(store).of(bug.id)
    if smaller and smaller["verdict"]:
        case_id, sentence = smaller["case"], smaller["verdict"]["reason"]
    case, target = case_to_run(store, case_id), Target.parse(bug.findings[0].target)
    if isinstance(kept, SlowMeasurement):
        return export_timing(target, case, Target.parse(kept.baseline), kept.limit, sentence)
    kind, own = bug.fingerprint.kind, own_nodes(case.program)
    copies = sorted({max(1, round(nodes / own)) for nodes in kept.row.nodes})
    least = LEAST_BYTES if kind == Kind.MEMORY else LEAST_SECONDS
    sizes = {count * own: count for count in copies}
    return export_growth(target, case, sizes, kind, limit=kept.limit, least=least, sentence=sentence)


def _fingerprint(case: Case, target: Target, kind: Kind) -> Fingerprint:
    stage = Stage.RUN if kind is Kind.SLOW else Stage.COMPILE
    program = case.program
    return fingerprint_of(
        program, operators_of(program), backend=target.backend, stage=str(stage), kind=kind, found=Evidence()
    )


@dataclass(frozen=True)
class _CostFinding:
    """A finding about cost, ready to be stored."""

    kind: Kind
    sentence: str
    kept: SlowMeasurement | GrowthMeasurement
    version: str = ""


def _record(store: Store, case: Case, target: Target, found: _CostFinding) -> Bug:
    name = _fingerprint(case, target, found.kind)
    return store.add_finding(
        name,
        replace(case, targets=(target,)),
        target,
        summary=found.sentence,
        status=Status.NEW,
        verdict={
            "verdict": str(Judgement.FAIL),
            "kind": str(found.kind),
            "reason": found.sentence,
            "evidence": Evidence(stage=name.stage).to_json(),
            "failed_runs": [2, 2],
            "blame": "",
            KEY: found.kept.to_json(),
            TITLE_FACTS: facts_of(case, Evidence()).to_json(),
        },
        execution=Execution(str(target), Outcome.OK, Stage(name.stage), version=found.version).summary(),
    )
