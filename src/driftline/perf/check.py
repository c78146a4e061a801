"""Time one program on several targets, each against its baselines, and measure the cost of compiling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from driftline.backends import resolve
from driftline.campaign.check.session import make_samples, maker_of, require_target
from driftline.checking.checker import Checker
from driftline.checking.deployed import deploy
from driftline.checking.kinds import HOME
from driftline.checking.open import LoadedProgram
from driftline.checking.timed import baseline_of
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.text import did_you_mean
from driftline.core.verdict import Judgement
from driftline.events import Listener, StepDone, StepsPlanned, StepStarted, Working, ignore
from driftline.inputs.sizes import NOT_GIVEN, Sizes
from driftline.measure.rounds import RoundLimits
from driftline.measure.words import times
from driftline.perf.comparison import (
    LIMIT,
    OTHER_WORK,
    SLOW,
    UNCONFIRMED,
    Effort,
    RatioMeasured,
    Side,
    Stopwatch,
    Unmeasured,
    conclude,
    plainly_below,
)
from driftline.perf.growth import EXPONENT, Grower, GrowthEffort
from driftline.perf.result import GrowthRow, PerfRow, PerfRun, unmeasured_row
from driftline.perf.twins import MADE_TWINS, made_twin
from driftline.perf.words import growth_words, row_words

EAGER, PLAIN, TWIN = "eager", "plain", "twin"


@dataclass(frozen=True)
class PerfOptions:
    """The baselines, limits and effort of a check."""

    against: tuple[str, ...] = ()  # `eager`, `plain` or targets; none: eager, or plain where eager has no say
    ratio: float = LIMIT
    effort: Effort = field(default_factory=Effort)
    growth: GrowthEffort | None = None
    exponent: float = EXPONENT
    twin: Case | None = None  # timed on the same target, in place of `against`


class Findings:
    """Receives the findings of a check. This base class stores nothing."""

    def slow(self, own: Side, other: Side, row: PerfRow, ratio: float) -> PerfRow:
        """Return the row with the name of its bug."""
        return row

    def growth(self, case: Case, target: Target, row: GrowthRow, exponent: float) -> GrowthRow:
        """Return the row with the names of its bugs."""
        return row


def parse_against(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of `eager`, `plain` and targets."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise DriftlineError("--against is empty; give eager, plain or a target, as in --against plain.")
    for one in found:
        if one in (EAGER, PLAIN, *MADE_TWINS):
            continue
        target = Target.parse(one)
        try:
            require_target(target)
        except DriftlineError as error:
            if near := did_you_mean(one, (EAGER, PLAIN)):
                raise DriftlineError(f"--against {one}: there is no such baseline.{near}") from error
            raise
    return found


def sample_case(opened: LoadedProgram, options: CheckOptions, sizes: Sizes = NOT_GIVEN) -> Case:
    """Return the program with one sample of inputs: its own example, or random numbers."""
    samples = make_samples(maker_of(opened, options, sizes), "example", 1, options.seed)
    return Case(opened.program, samples[:1], (), options)


def perf_check(
    checker: Checker,
    case: Case,
    targets: Sequence[Target],
    options: PerfOptions,
    *,
    listener: Listener = ignore,
    keeper: Findings | None = None,
) -> PerfRun:
    """Measure a program on targets. `keeper` receives each finding and returns it with the id of its bug."""
    keeper, twin = keeper or Findings(), options.twin
    asked = options.against or ((EAGER,) if case.program.framework == "torch" else (PLAIN,))
    questions = [(target, one) for target in targets for one in (asked if twin is None else (TWIN,))]
    listener(StepsPlanned(len(questions) + (len(targets) if options.growth else 0)))
    watch = Stopwatch(checker, options.effort)
    run = PerfRun(case.program.name, options.ratio, options.exponent, options.effort.rounds)
    for target, against in questions:
        name = f"{target} against {against}"
        listener(StepStarted(name))
        watch.tell = _teller(listener, name)
        own = Side(case, target, str(target))
        other = Side(twin, target, twin.program.name) if twin else baseline(checker, case, target, against)
        if isinstance(other, Side):
            row = answered(watch, own, other, against, options.ratio)
            row = keeper.slow(own, other, row, options.ratio) if row.found else row
        else:
            row = unmeasured_row(str(target), against, other)
        run = run.with_row(row)
        listener(StepDone(name, row_words(row)))
    for target in targets if options.growth else ():
        assert options.growth
        name = f"growth on {target}"
        listener(StepStarted(name))
        grower = Grower(checker, case, options.growth, options.exponent, _teller(listener, name))
        grown = grower.measure(target)
        grown = keeper.growth(case, target, grown, options.exponent) if grown.found else grown
        run = run.with_growth(grown)
        listener(StepDone(name, growth_words(grown)))
    return run


def answered(
    watch: Stopwatch, own: Side, other: Side, against: str, limit: float, *, screened: RatioMeasured | None = None
) -> PerfRow:
    """Answer one question: measure the noise, then the ratio, and, if that is beyond the limit, the ratio once more.
    `screened`: an earlier measurement in other processes, which replaces the first one.
    """
    row = PerfRow(str(own.target), against if against in (EAGER, TWIN, *MADE_TWINS) else str(other.target), "")
    floor = watch.floor(other, limit)
    if isinstance(floor, Unmeasured):
        return unmeasured_row(row.target, row.against, f"{other.words} could not be timed: {_told(floor)}")
    first = screened or watch.measure(own, other, settled=lambda ratio: plainly_below(ratio, limit))
    if isinstance(first, Unmeasured):
        who = other.words if first.of_baseline else own.words
        return replace(unmeasured_row(row.target, row.against, f"{who}: {_told(first)}"), floor=floor)
    measured: tuple[RatioMeasured, ...] = (first,)
    conclusion = conclude(measured, limit, floor)
    if conclusion == UNCONFIRMED:
        more = RoundLimits(2 * watch.effort.rounds, watch.effort.seconds)
        again = watch.measure(own, other, other_first=True, limits=more)
        if not isinstance(again, Unmeasured):
            measured = (first, again)
            conclusion = conclude(measured, limit, floor)
    if conclusion == SLOW and against in MADE_TWINS and (why := _other_work(watch, own, other, limit)):
        return replace(row, conclusion=OTHER_WORK, measured=measured, floor=floor, problem=why)
    return replace(row, conclusion=conclusion, measured=measured, floor=floor)


def _other_work(watch: Stopwatch, own: Side, other: Side, limit: float) -> str:
    """Return the reason why a twin is not the same work: eager, which does not optimise, also takes longer for the
    program. Empty if it is the same work, or if the target is eager itself.
    """
    home = baseline_of(own.target)
    if own.target == home:
        return ""
    watch.tell("eager on both")
    sides = (Side(one.case, home, EAGER) for one in (own, other))
    found = watch.measure(*sides, settled=lambda ratio: plainly_below(ratio, limit))
    if isinstance(found, Unmeasured):
        return f"eager, which says whether they are the same work, could not be timed: {_told(found)}"
    return "" if plainly_below(found.ratio, limit) else f"eager itself takes {times(found.ratio)} as long"


def baseline(checker: Checker, case: Case, target: Target, against: str) -> Side | str:
    """Return the side that a target is compared with, or the reason why there is none."""
    if against in MADE_TWINS:
        try:
            return Side(made_twin(checker, case, against), target, f"another {against}")
        except DriftlineError as error:
            return str(error)
    if against == EAGER:
        return Side(case, baseline_of(target), EAGER)
    if against != PLAIN:
        return Side(case, Target.parse(against), against)
    plainest = resolve(target).plainest(target.told)
    if plainest is None:
        return f"{target.backend} has no unoptimised mode"
    plain = Target(target.backend, target.version, tuple(plainest.items()))
    return f"{target} is its own unoptimised mode" if plain == target else Side(case, plain, str(plain))


def require_twin(checker: Checker, opened: LoadedProgram, twin: LoadedProgram, case: Case) -> Case:
    """Return the twin as a case with the program's inputs. Raise if it computes something else."""
    together = deploy(twin, opened)
    assert together.deployed
    home = Target(HOME[opened.program.framework])
    outcome = checker.check(replace(case, targets=(home,), deployed=together.deployed))
    verdict = outcome.results[0].verdict if outcome.results else None
    if verdict is None or verdict.judgement is not Judgement.PASS:
        why = verdict.reason if verdict else outcome.skipped[0].reason
        raise DriftlineError(f"--twin {twin.program.name} does not compute what {opened.program.name} does: {why}.")
    names = together.deployed.inputs
    samples = tuple(
        replace(sample, arrays={names.get(name, name): array for name, array in sample.arrays.items()})
        for sample in case.samples
    )
    return replace(case, program=twin.program, samples=samples)


def _teller(listener: Listener, name: str) -> Callable[[str], None]:
    return lambda words: listener(Working(name, words))


def _told(found: Unmeasured) -> str:
    return f"{found.outcome.lower()}: {found.reason}" if found.reason else found.outcome.lower()
