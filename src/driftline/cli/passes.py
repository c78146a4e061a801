"""`driftline passes`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driftline.cli.auditing import run_audit
from driftline.cli.common import (
    json_option,
    note,
    parse_budget,
    plugin_option,
    print_json,
    seed_option,
    store_option,
)
from driftline.cli.filled import filled
from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean

if TYPE_CHECKING:
    from driftline.events import Listener
    from driftline.patterns.audit import AuditResult


@click.group()
def passes() -> None:
    """Try a compiler's passes one at a time.

    A pass may change how a program is computed, never what. Driftline compiles small programs with no pass but those
    without which nothing runs, and again with one pass more; the ordinary check says whether the results are wrong.

    \b
      driftline passes list --compilers tvm
      driftline passes test --budget 10m
      driftline passes test --compilers tvm --only 'tirx.*' --budget 5m
      driftline check model.onnx --targets tvm:pass=none,tvm:pass=FuseOps
    """


def _only_option(function: Any) -> Any:
    return click.option(
        "--only", metavar="GLOB", default="", help="Passes by name, group, compiler or compiler/group/name."
    )(function)


def _compilers_option(function: Any) -> Any:
    return click.option(
        "--compilers", metavar="C1,C2", help="Whose passes; default: all that are installed and have the option pass."
    )(function)


@passes.command("list")
@_only_option
@_compilers_option
@plugin_option
@json_option
def list_all(only: str, compilers: str | None, plugins: tuple[str, ...], as_json: bool) -> int:
    """List every pass: its target, or why it is not tried alone."""
    from driftline.checking.checker import Checker
    from driftline.core.plugins import load_plugins
    from driftline.execute.pool import Pool
    from driftline.patterns.audit import chosen, passes_of
    from driftline.report.passes import show_passes

    load_plugins(plugins)
    files = tuple(str(Path(path).resolve()) for path in plugins)
    versions, listed = {}, []
    with Pool() as pool:
        for name in _compilers(compilers):
            versions[name], found = passes_of(Checker(pool), name, files)
            listed += found
    wanted = [one for one in listed if chosen(one, only)]
    if only and not wanted:
        raise DriftlineError(f"--only {only}: no pass is called so.{did_you_mean(only, [one.name for one in listed])}")
    if as_json:
        print_json({"schema": 1, "versions": versions, "passes": [one.to_json() for one in wanted]})
    else:
        show_passes(wanted)
    return 0


@dataclass(frozen=True)
class _TestOptions:
    """The options of `driftline passes test`."""

    budget: str | None
    only: str
    compilers: str | None
    jobs: int
    resume: bool
    seed: int


@passes.command("test")
@click.option("--budget", metavar="TIME", help="How long, all included: 90s, 10m, 1h.  [default: 10m]")
@_only_option
@_compilers_option
@plugin_option
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Checks at the same time.")
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the last test in the store that did not come to its end; with a longer --budget, also with one"
    " whose time was spent.",
)
@seed_option
@store_option
@json_option
@filled(_TestOptions)
def test(asked: _TestOptions, plugins: tuple[str, ...], store: Path, as_json: bool) -> int:
    """Run each pass alone on small programs, and check that they still mean the same.

    TVM's passes of TensorIR are also run on functions to which random schedule primitives were applied. What is found
    goes into the store and the report like a hunt's findings, with the pass in its name. Exit codes: 0 nothing found, 1
    wrong passes found, 3 Driftline itself failed somewhere (what was found is kept), 5 the time ended before the passes
    were known, 130 interrupted (resume it); 2 and 4 as everywhere.
    """
    from driftline.core.plugins import load_plugins, plugin_words
    from driftline.report.passes import passes_json, show_passes_test
    from driftline.workbench import Workbench

    if asked.resume and (asked.only or asked.compilers):
        raise DriftlineError("--resume goes on with what was asked for then; leave out --only and --compilers.")
    seconds = parse_budget(asked.budget) if asked.budget else None
    load_plugins(plugins)
    wanted = None if asked.resume else _compilers(asked.compilers)
    with Workbench(store, jobs=asked.jobs) as bench:

        def ask(listener: Listener) -> AuditResult:
            return bench.test_passes(
                seconds=seconds,
                compilers=wanted,
                only=asked.only,
                seed=asked.seed,
                plugins=plugins,
                resume=asked.resume,
                listener=listener,
            )

        def show(result: AuditResult) -> None:
            if as_json:
                print_json(passes_json(result, bench.store))
            else:
                show_passes_test(result, bench.store)

        again = ["driftline", "passes", "test", "--resume", "--store", store, *plugin_words()]
        return run_audit("Trying passes", seconds or 600.0, ask, show, again)


def _compilers(text: str | None) -> tuple[str, ...]:
    from driftline.patterns.audit import chosen_compilers
    from driftline.patterns.one_by_one import compilers_with_passes

    if text is None:
        for name, reason in compilers_with_passes().items():
            if reason:
                note(f"driftline: {name} is left out: {reason}")
        return chosen_compilers(None, passes=True)
    return chosen_compilers([part.strip() for part in text.split(",") if part.strip()], passes=True)
