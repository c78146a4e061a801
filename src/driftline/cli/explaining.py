"""What the commands that explain a failure share: their arguments, the store and the workers, progress, exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import click

from driftline.cli.clock import elapsed
from driftline.cli.common import parse_budget, plugin_option, seed_option, sizes_options, store_option, trust_option
from driftline.cli.completing import complete_subject, complete_targets
from driftline.cli.filled import filled
from driftline.report.progress import Activity, CheckProgress

if TYPE_CHECKING:
    from driftline.campaign.explain.explanations import ExplainedBugs
    from driftline.campaign.explain.failing import Failing
    from driftline.causes import Library
    from driftline.workbench import FailingSettings, Workbench

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ExplainOptions:
    """The arguments that all commands take that explain a failure."""

    subject: str
    budget: str
    target: str | None
    inputs: str
    dims: tuple[str, ...]
    shapes: tuple[str, ...]
    seed: int
    store: Path
    plugins: tuple[str, ...]


def explaining_options(budget: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the arguments of `ExplainOptions` to a command, which takes them as `given`. `budget`: the default."""

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        function = filled(ExplainOptions, "given")(function)
        for option in (
            plugin_option,
            trust_option,
            store_option,
            seed_option,
            sizes_options,
            click.option(
                "--inputs", metavar="FILE.npz|example|random|specials", default="example", help="Inputs of a PROGRAM."
            ),
            click.option(
                "--target",
                metavar="TARGET",
                shell_complete=complete_targets,
                help="The target of a PROGRAM; of a bug, another than its own.",
            ),
            click.option("--budget", default=budget, show_default=True, help="Time for it: 90s, 5m, 1h."),
            click.argument("subject", metavar="BUG|CASE|PROGRAM", shell_complete=complete_subject),
        ):
            function = option(function)
        return function

    return decorate


def diagnose_option(function: F) -> F:
    return click.option("--diagnose", is_flag=True, help="Also explain every new bug, as driftline diagnose does.")(
        function
    )


def explain(bugs: Sequence[str], bench: Workbench) -> ExplainedBugs:
    """Explain bugs one after the other, with progress; what cannot be explained is said on stderr."""
    from driftline.campaign.explain.diagnosis import EACH
    from driftline.campaign.explain.explanations import ExplainedBugs

    if not bugs:
        return ExplainedBugs(asked=True)
    with Activity("Explaining", EACH * len(bugs)) as progress:
        return bench.explain(bugs, listener=progress)


@contextmanager
def opened(subject: str, store: Path, plugins: Sequence[str], library: Library | None = None) -> Iterator[Workbench]:
    """The store with its workers, for a command that explains something."""
    from driftline.campaign.explain.failing import is_program
    from driftline.store import Store
    from driftline.workbench import Workbench

    if not is_program(subject):
        Store.open(store).close()  # a store that is not there must not be made by asking
    with Workbench(store, plugins=plugins, library=library) as bench:
        yield bench


def failing_for(bench: Workbench, subject: str, **settings: Unpack[FailingSettings]) -> Failing:
    """What a command is asked to explain. To check a program first takes a while, and is shown."""
    from driftline.campaign.explain.failing import is_program

    if not is_program(subject):
        return bench.failing(subject, **settings)
    with CheckProgress(f"Checking {subject}", 1 if settings.get("target") else None) as progress:
        return bench.failing(subject, listener=progress, **settings)


class Explaining:
    """Everything that is open while a failure is explained: the store with its workers, and the progress."""

    bench: Workbench
    failing: Failing

    def __init__(self, title: str, given: ExplainOptions, library: Library | None = None) -> None:
        self._title = title
        self._given, self._library = given, library
        self.seconds = parse_budget(given.budget)
        self._open = ExitStack()

    def __enter__(self) -> Explaining:
        from driftline.campaign.check.session import check_strategy
        from driftline.campaign.explain.failing import is_program
        from driftline.core.plugins import load_plugins
        from driftline.core.target import Target
        from driftline.inputs.sizes import Sizes

        given = self._given
        load_plugins(given.plugins)
        check_strategy(given.inputs)  # what is mistyped is refused before a store is made for it
        sizes = Sizes.parse(given.dims, given.shapes)
        if given.target:
            Target.parse(given.target)
        with ExitStack() as opening:
            self.bench = opening.enter_context(opened(given.subject, given.store, given.plugins, self._library))
            before = elapsed()
            self.failing = failing_for(
                self.bench,
                given.subject,
                target=given.target,
                inputs=given.inputs,
                dims=sizes.dims,
                shapes=sizes.shapes,
                seed=given.seed,
            )
            # What was imported and opened until here is part of the budget; the check of a program is not.
            spent = before if is_program(given.subject) else elapsed()
            self.seconds = max(1.0, self.seconds - spent)
            self._open = opening.pop_all()
        return self

    def progress(self) -> Activity:
        """Shown until the end of the block."""
        return self._open.enter_context(Activity(self._title, self.seconds))

    def __exit__(self, *problem: Any) -> None:
        self._open.__exit__(*problem)

    def exit_code(self, internal_errors: Sequence[str]) -> int:
        """Return 1, since the program that was asked about fails, and print faults of Driftline itself."""
        from driftline.cli import report_own_faults

        report_own_faults(internal_errors)
        return 1
