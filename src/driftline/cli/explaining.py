"""What the commands that explain a failure share: their arguments, the store and the workers, progress, exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import click

from driftline.cli.clock import elapsed
from driftline.cli.common import parse_budget, plugin_option, seed_option, sizes_options, store_option, trust_option
from driftline.cli.completing import complete_subject, complete_targets
from driftline.core.errors import InternalError
from driftline.report.progress import Activity, CheckProgress

if TYPE_CHECKING:
    from driftline.campaign.explanations import ExplainedBugs
    from driftline.campaign.failing import Failing
    from driftline.causes import Library
    from driftline.execute.pool import Pool
    from driftline.store import Store
    from driftline.workbench import FailingSettings, Workbench

F = TypeVar("F", bound=Callable[..., Any])


def explaining_options(budget: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
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


def explain(bugs: Sequence[str], store: Store, pool: Pool, library: Library) -> ExplainedBugs:
    """Explain bugs one after the other, with progress; what cannot be explained is said on stderr."""
    from driftline.campaign.diagnosis import EACH
    from driftline.campaign.explanations import ExplainedBugs, explain_bugs
    from driftline.checking.checker import Checker

    if not bugs:
        return ExplainedBugs(asked=True)
    with Activity("Explaining", EACH * len(bugs)) as progress:
        return explain_bugs(Checker(pool), store, bugs, library=library, listener=progress)


@contextmanager
def opened(subject: str, store: Path, plugins: Sequence[str], library: Library | None = None) -> Iterator[Workbench]:
    """The store with its workers, for a command that explains something."""
    from driftline.campaign.failing import is_program
    from driftline.store import Store
    from driftline.workbench import Workbench

    if not is_program(subject):
        Store.open(store).close()  # a store that is not there must not be made by asking
    with Workbench(store, plugins=plugins, library=library) as bench:
        yield bench


def failing_for(bench: Workbench, subject: str, **settings: Unpack[FailingSettings]) -> Failing:
    """What a command is asked to explain. To check a program first takes a while, and is shown."""
    from driftline.campaign.failing import is_program

    if not is_program(subject):
        return bench.failing(subject, **settings)
    with CheckProgress(f"Checking {subject}", 1 if settings.get("target") else None) as progress:
        return bench.failing(subject, listener=progress, **settings)


class Explaining:
    """Everything that is open while a failure is explained: the store with its workers, and the progress."""

    bench: Workbench
    failing: Failing

    def __init__(
        self,
        title: str,
        *,
        subject: str,
        budget: str,
        target: str | None,
        inputs: str,
        dims: tuple[str, ...],
        shapes: tuple[str, ...],
        seed: int,
        store: Path,
        plugins: tuple[str, ...],
        library: Library | None = None,
    ) -> None:
        self._title = title
        self.seconds = parse_budget(budget)
        self._subject, self._target, self._inputs = subject, target, inputs
        self._dims, self._shapes = dims, shapes
        self._seed, self._place, self._plugins, self._library = seed, store, plugins, library
        self._open = ExitStack()

    def __enter__(self) -> Explaining:
        from driftline.campaign.failing import is_program
        from driftline.campaign.session import check_strategy
        from driftline.core.plugins import load_plugins
        from driftline.core.target import Target
        from driftline.inputs.sizes import Sizes

        load_plugins(self._plugins)
        check_strategy(self._inputs)  # what is mistyped is refused before a store is made for it
        sizes = Sizes.parse(self._dims, self._shapes)
        if self._target:
            Target.parse(self._target)
        with ExitStack() as opening:
            self.bench = opening.enter_context(opened(self._subject, self._place, self._plugins, self._library))
            before = elapsed()
            self.failing = failing_for(
                self.bench,
                self._subject,
                target=self._target,
                inputs=self._inputs,
                dims=sizes.dims,
                shapes=sizes.shapes,
                seed=self._seed,
            )
            # What was imported and opened until here is part of the budget; the check of a program is not.
            spent = before if is_program(self._subject) else elapsed()
            self.seconds = max(1.0, self.seconds - spent)
            self._open = opening.pop_all()
        return self

    def progress(self) -> Activity:
        """Shown until the end of the block."""
        return self._open.enter_context(Activity(self._title, self.seconds))

    def __exit__(self, *problem: Any) -> None:
        self._open.__exit__(*problem)

    def exit_code(self, internal_errors: Sequence[str]) -> int:
        """What was asked about fails; that is a finding, unless we ourselves failed."""
        if not internal_errors:
            return 1
        from driftline.cli import report_internal_error

        report_internal_error(internal_errors[0])
        return InternalError.exit_code
