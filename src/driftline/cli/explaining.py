"""What the commands that explain a failure share: their arguments, the store and the workers, progress, exit codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from driftline.cli.clock import elapsed
from driftline.cli.common import parse_budget, plugin_option, seed_option, sizes_options, store_option, trust_option
from driftline.core.errors import InternalError
from driftline.report.progress import Activity, CheckProgress

if TYPE_CHECKING:
    from driftline.campaign.explanations import ExplainedBugs
    from driftline.campaign.failing import Failing
    from driftline.causes import Library
    from driftline.checking.checker import Checker
    from driftline.core.target import Target
    from driftline.execute.pool import Pool
    from driftline.store import Store

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


def explain(bugs: Sequence[str], store: Store, pool: Pool, library: Library) -> ExplainedBugs:
    """Explain bugs one after the other, with progress; what cannot be explained is said on stderr."""
    from driftline.campaign.diagnosis import EACH
    from driftline.campaign.explanations import ExplainedBugs, explain_bugs
    from driftline.checking.checker import Checker

    if not bugs:
        return ExplainedBugs(asked=True)
    with Activity("Explaining", EACH * len(bugs)) as progress:
        return explain_bugs(Checker(pool), store, bugs, library=library, listener=progress)


def failing_for(subject: str, store: Store, checker: Checker, *, target: Target | None = None, **given: Any) -> Failing:
    """What a command is asked to explain. To check a program first takes a while, and is shown."""
    from driftline.campaign.failing import find_failing, is_program

    if not is_program(subject):
        return find_failing(subject, store, checker, target=target, **given)
    with CheckProgress(f"Checking {subject}", 1 if target else None) as progress:
        return find_failing(subject, store, checker, target=target, **given, listener=progress)


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
        dims: tuple[str, ...],
        shapes: tuple[str, ...],
        seed: int,
        store: Path,
        plugins: tuple[str, ...],
    ) -> None:
        self._title = title
        self.budget = parse_budget(budget)
        self._subject, self._target, self._inputs = subject, target, inputs
        self._dims, self._shapes = dims, shapes
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
        from driftline.inputs.sizes import Sizes
        from driftline.store import Store

        load_plugins(self._plugins)
        check_strategy(self._inputs)
        sizes = Sizes.parse(self._dims, self._shapes)
        wanted = Target.parse(self._target) if self._target else None
        options = CheckOptions(seed=self._seed, plugins=tuple(str(Path(p).resolve()) for p in self._plugins))
        self.budget = max(1.0, self.budget - elapsed())  # a program is checked outside of it
        if not is_program(self._subject):
            Store.open(self._place).close()  # a store that is not there must not be made by asking
        self.store = opening.enter_context(Store.create(self._place))
        self.checker = Checker(opening.enter_context(Pool()))
        self.failing = failing_for(
            self._subject, self.store, self.checker, target=wanted, inputs=self._inputs, sizes=sizes, options=options
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
