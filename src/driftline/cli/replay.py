"""`driftline replay`."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.common import json_option, plugin_option, print_json, progress_line, store_option, trust_option
from driftline.cli.completing import complete_bugs, complete_targets

if TYPE_CHECKING:
    from driftline.checking.checker import TargetResult


@click.command()
@click.argument("bug", metavar="BUG|CASE", shell_complete=complete_bugs)
@click.option(
    "--target",
    metavar="TARGET",
    shell_complete=complete_targets,
    help="Another target than the bug's own, such as another version.",
)
@store_option
@plugin_option
@trust_option
@json_option
def replay(bug: str, target: str | None, store: Path, plugins: tuple[str, ...], as_json: bool) -> int:
    """Run a stored bug again and say: still fails, fixed, or differs; on another target, passes instead of fixed.

    BUG is its name as `driftline bugs list` shows it; a unique prefix is enough. Exit code 0 means fixed or passes, 1
    means that it still fails or fails in another way. A bug that is about cost (slow, slow-compile, memory) is measured
    again. The id of a stored CASE, such as a part of a program that another
    command names, runs that case: 0 means that it passes.

    The plugins that a store names are code and are not loaded by themselves: give them again with --plugin.
    """
    from driftline.checking.result import Replay, ReplayAnswer
    from driftline.cli.schedules import replay_schedule
    from driftline.core.program import SCHEDULE
    from driftline.core.verdict import COSTS
    from driftline.events import ignore
    from driftline.report.progress import StepProgress
    from driftline.report.results import SCHEMA, bug_json
    from driftline.report.terminal import show_replay
    from driftline.store import Store
    from driftline.workbench import Workbench

    Store.open(store).close()  # a replay makes none
    with Workbench(store, plugins=plugins) as bench:
        if re.fullmatch(r"[0-9a-f]{16}", bug):
            return _show_case(bug, bench.replay_case(bug, target=target), as_json)
        stored = bench.store.bug(bug)
        case = bench.store.load_case(stored.findings[0].case_id)
        if case.program.form == SCHEDULE:
            return replay_schedule(bug, store, as_json)
        measured = stored.fingerprint.kind in COSTS
        if not measured and not as_json:
            progress_line(f"Running {case.program.name} on {target or case.targets[0]} ...")
        with StepProgress(f"Measuring {stored.id}") if measured else nullcontext(ignore) as listener:
            answer = bench.replay(stored.id, target=target, listener=listener)
        if as_json:
            told = {"target": answer.target, "answer": str(answer.answer), "reason": answer.reason}
            print_json({"schema": SCHEMA, "bug": bug_json(answer.bug, store), **told})
        elif isinstance(answer, Replay):
            show_replay(answer)
        else:
            click.echo(f"{answer.bug.id} on {answer.target}: {answer.answer} ({answer.reason})")
    return 0 if answer.answer in (ReplayAnswer.FIXED, ReplayAnswer.PASSES) else 1


def _show_case(case_id: str, result: TargetResult, as_json: bool) -> int:
    from driftline.report.results import SCHEMA

    verdict = result.verdict
    if as_json:
        told = {"target": str(result.target), "answer": str(verdict.judgement), "reason": verdict.reason}
        print_json({"schema": SCHEMA, "case": case_id, **told})
    else:
        click.echo(f"{case_id} on {result.target}: {verdict.judgement} ({verdict.reason})")
    return 0 if str(verdict.judgement) == "pass" else 1
