"""The steps of the tour: each explains itself, calls the same functions as the command, and reports the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS
from driftline.campaign.check.session import check_program
from driftline.campaign.check.stored import case_to_run
from driftline.campaign.explain.ablation import ablate_failing
from driftline.campaign.explain.bisection import ReleaseWish, bisect_failing, keep_bisection
from driftline.campaign.explain.exporting import subject_of
from driftline.campaign.explain.failing import Failing, find_failing
from driftline.campaign.explain.reduction import reduce_failing
from driftline.checking.aspects import Extent
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.quoting import shell
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.diagnose.reduce.reducer import NotReducible
from driftline.report.annotated import causes_of
from driftline.report.export.issue import issue_text
from driftline.report.export.script import export_script
from driftline.report.formats import write
from driftline.report.words import ended_words
from driftline.store import Store
from driftline.store.reductions import Reductions
from driftline.tour.cases import CASES, TourCase

ISSUE = "issue.md"
_SHOWN = 30  # lines of a program


class CannotShow(Exception):
    """Raised by a step that cannot be shown on this machine, with the reason; the tour continues."""


@dataclass
class Tour:
    """The state that the steps of a tour share."""

    checker: Checker
    store: Store
    folder: Path
    fast: bool
    case: TourCase | None = None
    failing: Failing | None = None
    rows: Sequence[TargetResult] = ()

    def budget(self, seconds: float) -> float:
        return seconds / 2 if self.fast else seconds

    def found(self) -> Failing:
        if self.failing is None:
            raise CannotShow("it needs what the step find shows")
        return self.failing

    def command(self, *words: object) -> str:
        return shell(["driftline", *words, "--store", self.store.path])


@dataclass(frozen=True)
class Shown:
    """The result of a step: lines for people, facts for programs."""

    lines: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    quoted: str = ""  # a program or text to show


@dataclass(frozen=True)
class TourStep:
    """One step of the tour."""

    name: str
    title: str
    about: str  # what the step does, and why
    command: Callable[[Tour], str]  # the command for a terminal
    show: Callable[[Tour], Shown]


# -- find --------------------------------------------------------------------------------------------------------------


def _find(tour: Tour) -> Shown:
    """Check the cases in turn until one fails here."""
    tried = []
    for case in CASES:
        if not BACKENDS.get(case.target).installed().available:
            tried.append(f"{case.target} is not installed")
            continue
        path = tour.folder / case.file
        path.write_text(case.text)
        there = [name for name in case.others if BACKENDS.get(name).installed().available]
        targets = [Target.parse(name) for name in (case.target, *there)]
        options = CheckOptions()
        opened = open_program(f"{path}:program", tour.checker.pool, options)
        result = check_program(
            tour.checker, tour.store, opened, targets=targets, options=options, extent=Extent(calls=2)
        )
        bug = result.bugs.get(targets[0])
        if bug is None:
            tried.append(f"{case.target} is right on {case.file} here")
            continue
        tour.case, tour.rows = case, result.results
        tour.failing = find_failing(bug.id, tour.store, tour.checker, target=targets[0])
        verdicts = {str(row.target): str(row.verdict.judgement) for row in result.results}
        lines = [
            *(f"{row.target} {row.execution.version}: {row.verdict.judgement}" for row in result.results),
            f"The failure came back in a fresh process and is kept as {bug.id}.",
        ]
        if effect := next((row.effect for row in result.results if row.effect and row.target == targets[0]), None):
            lines.append(f"In use: {effect}.")
        return Shown((case.story, *lines), {"case": case.name, "bug": bug.id, "verdicts": verdicts})
    raise CannotShow(f"no case of the tour fails on this machine: {'; '.join(tried)}")


# -- judge -------------------------------------------------------------------------------------------------------------


def _judge(tour: Tour) -> Shown:
    failing = tour.found()
    evidence = failing.finding.evidence
    lines = []
    facts: dict[str, Any] = {"reason": failing.bug.summary, "sigma": evidence.sigma, "error": evidence.error}
    if evidence.worst and evidence.sigma and evidence.error:
        worst = evidence.worst[0]
        lines.append(
            f"The worst element is {worst.got:.6g} where {worst.expected:.6g} is right. Running the same graph many"
            f" times with every legal rounding error moves it by {evidence.sigma:.1g}; the compiler moved it by"
            f" {evidence.error:.2g}, {evidence.error / evidence.sigma:,.0f} times that."
        )
        if evidence.certain:
            lines.append("That is beyond what rounding could do even if every single error pointed the same way.")
    else:
        lines.append(f"{failing.bug.summary}. No rounding makes that.")
    passed = [str(row.target) for row in tour.rows if row.verdict.judgement is Judgement.PASS]
    if passed:
        lines.append(f"{' and '.join(passed)} computed the same program within rounding.")
    facts["passed"] = passed
    return Shown(tuple(lines), facts)


# -- shrink ------------------------------------------------------------------------------------------------------------


def _shrink(tour: Tour) -> Shown:
    failing = tour.found()
    try:
        body = reduce_failing(tour.checker, tour.store, failing, budget=tour.budget(120)).body
    except (NotReducible, DriftlineError) as error:
        raise CannotShow(str(error)) from error
    was, now = body["before"], body["after"]
    facts = {"before": was["operators"], "after": now["operators"], "ended": body["ended"], "queries": body["queries"]}
    ended = ended_words(body["ended"])
    line = f"From {was['operators']} operators to {now['operators']}, in {body['queries']} trials ({ended})."
    text = body["program"]["text"].strip().splitlines()
    inputs = [f"{one['name']} = {one['values']}" for one in body["inputs"] if one["values"] is not None]
    return Shown((line, *(f"Inputs: {'; '.join(inputs)}" for _ in inputs[:1])), facts, "\n".join(text[:_SHOWN]))


# -- blame -------------------------------------------------------------------------------------------------------------


def _blame(tour: Tour) -> Shown:
    failing = tour.found()
    reduction = Reductions(tour.store).of(failing.bug.id)
    smaller = case_to_run(tour.store, reduction["case"]).only(Target.parse(reduction["target"])) if reduction else None
    try:
        body = ablate_failing(tour.checker, tour.store, failing, budget=tour.budget(90), case=smaller).body
    except DriftlineError as error:
        raise CannotShow(str(error)) from error
    cures = [cure["sentence"] for cure in body["cures"]]
    bug = tour.store.bug(failing.bug.id)
    causes = [cause.title for cause in causes_of(bug)]
    lines = [*cures, *(f"Known cause: {title}." for title in causes)]
    return Shown(
        tuple(lines or ["No option or rule was found whose absence makes it right."]),
        {"cures": cures, "causes": causes},
    )


# -- bisect ------------------------------------------------------------------------------------------------------------


def _bisect(tour: Tour) -> Shown:
    failing, wish = tour.found(), _releases(tour)
    package = wish.package
    try:
        bisected = bisect_failing(tour.checker, failing, wish)
    except DriftlineError as error:
        raise CannotShow(f"an older release cannot be had ({str(error).rstrip('.')})") from error
    keep_bisection(tour.store, bisected)
    trials = {trial.release: str(trial.answer) for trial in bisected.in_order}
    if len(trials) < 2:
        raise CannotShow(f"no other release of {package} is installed, and --fast downloads nothing")
    lines = [f"{package} {release}: {answer}" for release, answer in trials.items()]
    return Shown((*lines, f"{bisected.search.summary()}."), {"package": package, "releases": trials})


def _releases(tour: Tour) -> ReleaseWish:
    """Return the releases to bisect: the installed one and a good one; with `--fast`, only what is installed."""
    failing, case = tour.found(), tour.case
    package = BACKENDS.get(failing.target.backend).packages[0]
    if tour.fast:
        return ReleaseWish(package, installed=True)
    if not case or not case.good:
        raise CannotShow(f"an older release of {package} is too large a download for a demonstration")
    return ReleaseWish(package, releases=(case.good, failing.finding.execution["version"]))


def _bisect_command(tour: Tour) -> str:
    wish = _releases(tour)
    which = ["--releases", ",".join(wish.releases)] if wish.releases else ["--installed"]
    return tour.command("bisect", tour.found().bug.id, *which)


# -- export ------------------------------------------------------------------------------------------------------------


def _export(tour: Tour) -> Shown:
    failing = tour.found()
    subject = subject_of(tour.store, tour.checker, failing)
    made = export_script(subject)
    text = issue_text(subject, made)
    path = tour.folder / ISSUE
    write(path, text)
    valid = "runs by itself and shows the bug" if made.valid else f"is not valid: {made.reason}"
    lines = [f"Written to {path}; its script of {made.lines} lines {valid}."]
    if subject.tracker.url:
        lines.append(f"It would go to {subject.tracker.url}; nothing is sent.")
    return Shown(tuple(lines), {"file": str(path), "valid": made.valid, "lines": made.lines}, _beginning(text))


def _beginning(text: str) -> str:
    lines = text.splitlines()
    return "\n".join([*lines[:_SHOWN], *(["..."] if len(lines) > _SHOWN else [])])


def _about_bug(name: str, *more: str) -> Callable[[Tour], str]:
    return lambda tour: tour.command(name, tour.failing.bug.id if tour.failing else "BUG", *more)


def _show_command(tour: Tour) -> str:
    return tour.command("bugs", "show", tour.failing.bug.id if tour.failing else "BUG")


def _check_command(tour: Tour) -> str:
    case = tour.case or CASES[0]
    return tour.command(
        "check", f"{tour.folder / case.file}:program", "--targets", ",".join((case.target, *case.others))
    )


STEPS = (
    TourStep(
        "find",
        "A real miscompile is found",
        "One program runs on several compilers, each in a process of its own. What it means is computed apart from"
        " them all: its graph in float64. A failure must come back in a fresh process before it counts.",
        _check_command,
        _find,
    ),
    TourStep(
        "judge",
        "It is told from rounding",
        "Compilers may reorder and fuse, so numbers may differ a little. No tolerance is guessed: the graph is run"
        " many times with the rounding errors that legal implementations may make, which says how far each element may"
        " move.",
        _show_command,
        _judge,
    ),
    TourStep(
        "shrink",
        "It is made as small as it gets",
        "Operators, dimensions and numbers are taken away as long as the same failure stays.",
        _about_bug("reduce"),
        _shrink,
    ),
    TourStep(
        "blame",
        "It is blamed on what the compiler does",
        "Optimisers, passes and rewrite rules of the compiler are switched off by halving, until the smallest set is"
        " left without which the result is right.",
        _about_bug("ablate"),
        _blame,
    ),
    TourStep(
        "bisect",
        "It is bisected over two releases",
        "The same case runs on an older release, installed from the package registry into an environment of its own."
        " Did it always fail?",
        _bisect_command,
        _bisect,
    ),
    TourStep(
        "export",
        "It is written up as an issue",
        "What was found becomes a text for the compiler's tracker, with a script that needs nothing of Driftline. The"
        " script is run in a clean process first.",
        _about_bug("export", "--as", "issue"),
        _export,
    ),
)  # fmt: skip
