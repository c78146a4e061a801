"""What the commands that explain a failure share: their arguments, the store and the workers, progress, exit codes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftline.cli.common import (
    Activity,
    Ticker,
    new_bug_line,
    note,
    parse_budget,
    plugin_option,
    seed_option,
    store_option,
)
from driftline.core.errors import InternalError

if TYPE_CHECKING:
    from driftline.campaign.failing import Failing
    from driftline.checking.checker import Checker
    from driftline.core.target import Target
    from driftline.execute.pool import Pool
    from driftline.store import Bug, Store

F = TypeVar("F", bound=Callable[..., Any])


def explaining_options(budget: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in (
            plugin_option,
            store_option,
            seed_option,
            click.option(
                "--inputs", metavar="FILE.npz|example|random|specials", default="example", help="Of a PROGRAM."
            ),
            click.option("--target", metavar="TARGET", help="The target of a PROGRAM; of a bug, another than its own."),
            click.option("--budget", default=budget, show_default=True, help="Time for it: 90s, 5m, 1h."),
            click.argument("subject", metavar="BUG|CASE|PROGRAM"),
        ):
            function = option(function)
        return function

    return decorate


def diagnose_option(function: F) -> F:
    return click.option("--diagnose", is_flag=True, help="Also explain every new bug, as driftline diagnose does.")(
        function
    )


@dataclass
class Explained:
    """The explanations of several bugs, and the bugs that were met on the way."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    met: dict[str, Bug] = field(default_factory=dict)  # by id
    new: set[str] = field(default_factory=set)  # those met that the store did not know before
    asked: bool = False

    def meet(self, bugs: Sequence[Bug], known: Collection[str]) -> list[Bug]:
        """Those of the bugs that are met for the first time and were not known before."""
        fresh = [bug for bug in bugs if bug.id not in known and bug.id not in self.met]
        self.met |= {bug.id: bug for bug in bugs}
        self.new |= {bug.id for bug in fresh}
        return fresh

    def to_json(self) -> dict[str, Any]:
        return {"diagnoses": self.bodies} if self.asked else {}

    def show(self) -> None:
        for body in self.bodies:
            click.echo()
            show_diagnosis(body)


def explain(bugs: Sequence[str], store: Store, pool: Pool) -> Explained:
    """Explain bugs one after the other; what cannot be explained is said on stderr."""
    from driftline.campaign.diagnosis import EACH, Diagnosis, diagnose_bugs
    from driftline.checking.checker import Checker

    unique = list(dict.fromkeys(bugs))
    explained = Explained(asked=True)
    if unique:
        known = {bug.id for bug in store.bugs()}
        with Activity("Explaining", EACH * len(unique)) as progress:
            for found in diagnose_bugs(Checker(pool), store, unique, listener=progress):
                if isinstance(found, Diagnosis):
                    explained.bodies.append(found.to_json())
                    for bug in explained.meet(found.met, known):
                        progress(new_bug_line(bug))
                else:
                    note(f"driftline: {found}")
    return explained


def show_diagnosis(body: dict[str, Any]) -> None:
    from driftline.report.program import reduced_text

    click.echo(f"{body['bug']} on {body['target']}, explained in {body['seconds']:.0f} s")
    for sentence in body["summary"]:
        click.echo(f"  {sentence}")
    if body["reduction"]:
        click.echo(f"\n{reduced_text(body['reduction'])}")
        for other in body["reduction"].get("others", ()):
            click.echo(f"\nMet on the way, and kept as a bug of its own: {other}")
    again = list(_again(body))
    if again:
        click.echo("\nAgain:")
    for command, shows in again:
        click.echo(f"  {command}  # {shows}")


def _again(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The commands that show it again, and what each of them shows."""
    for suspect in (body["localization"] or {}).get("suspects", ()):
        yield suspect["command"], f"the suspect alone, {suspect['title']}: fails"
    asked = "the reduced program" if body["reduction"] else "the program that was found"
    for cure in (body["ablation"] or {}).get("cures", ()):
        if cure["confirmed"]:
            yield cure["command"], f"{asked} with this cure: passes"
    for cure in body["on_original"]:
        passes = "passes" if cure["answer"] == "pass" else "does not pass"
        yield cure["command"], f"the program that was found, with this cure: {passes}"


def failing_for(subject: str, store: Store, checker: Checker, *, target: Target | None = None, **given: Any) -> Failing:
    """What a command is asked to explain. To check a program first takes a while, and is shown."""
    from driftline.campaign.failing import find_failing, is_program

    if not is_program(subject):
        return find_failing(subject, store, checker, target=target, **given)
    with Ticker(f"Checking {subject}", 1 if target else None) as ticker:
        return find_failing(subject, store, checker, target=target, **given, progress=ticker.checked)


class Explaining:
    """Everything that is open while a failure is explained: the store, the workers, the progress."""

    checker: Checker
    store: Store
    failing: Failing
    progress: Activity

    def __init__(
        self,
        title: str,
        *,
        subject: str,
        budget: str,
        target: str | None,
        inputs: str,
        seed: int,
        store: Path,
        plugins: tuple[str, ...],
    ) -> None:
        self._title = title
        self.budget = parse_budget(budget)
        self._subject, self._target, self._inputs = subject, target, inputs
        self._seed, self._place, self._plugins = seed, store, plugins
        self._open = ExitStack()

    def __enter__(self) -> Explaining:
        with ExitStack() as opening:
            self._enter(opening)
            self._open = opening.pop_all()
        return self

    def _enter(self, opening: ExitStack) -> None:
        from driftline.campaign.failing import is_program
        from driftline.campaign.session import check_strategy
        from driftline.checking.checker import Checker
        from driftline.core.case import CheckOptions
        from driftline.core.plugins import load_plugins
        from driftline.core.target import Target
        from driftline.execute.pool import Pool
        from driftline.store import Store

        load_plugins(self._plugins)
        check_strategy(self._inputs)
        wanted = Target.parse(self._target) if self._target else None
        options = CheckOptions(seed=self._seed, plugins=tuple(str(Path(p).resolve()) for p in self._plugins))
        if not is_program(self._subject):
            Store.open(self._place).close()  # a store that is not there must not be made by asking
        self.store = opening.enter_context(Store.create(self._place))
        self.checker = Checker(opening.enter_context(Pool()))
        self.failing = failing_for(
            self._subject, self.store, self.checker, target=wanted, inputs=self._inputs, options=options
        )
        self.progress = opening.enter_context(Activity(self._title, self.budget))

    def __exit__(self, *problem: Any) -> None:
        self._open.__exit__(*problem)

    def exit_code(self, internal_errors: Sequence[str]) -> int:
        """What was asked about fails; that is a finding, unless we ourselves failed."""
        if not internal_errors:
            return 1
        from driftline.cli import report_internal_error

        report_internal_error(internal_errors[0])
        return InternalError.exit_code
