"""Show the result of testing passes one at a time, in the terminal and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from driftline.core.rule import ONE_PASS, Reach
from driftline.core.target import Target
from driftline.report.audits import bug_json, show_bugs
from driftline.report.results import go_on
from driftline.report.screen import Screen
from driftline.report.words import duration, plural
from driftline.store import Store

if TYPE_CHECKING:
    from driftline.core.rule import Rule
    from driftline.patterns.audit import AuditResult, CompilerResult


MOST_NAMES = 40


def show_passes(passes: Sequence[Rule]) -> None:
    """Print the passes in the order of the compilers' pipelines, with the reason why some are not tried."""
    out = Screen(width=None if sys.stdout.isatty() else 160, highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("compiler", "pass", "group", "target", "not tried because"):
        table.add_column(column, overflow="fold")
    for one in passes:
        target = "" if one.unreachable else str(Target(one.compiler, None, ((ONE_PASS, one.name),)))
        table.add_row(one.compiler, escape(one.name), escape(one.group), escape(target), escape(one.unreachable))
    out.print(table)
    tried = sum(not one.unreachable for one in passes)
    out.print(f"\n{plural(len(passes), 'pass', 'passes')}, {tried} of them tried alone: driftline passes test")


def passes_json(result: AuditResult, store: Store) -> dict[str, Any]:
    """Return the output of `passes test --json`; docs/json.md has the schema."""
    return {
        "schema": 1,
        "seed": result.plan.seed,
        "seconds": round(result.seconds, 1),
        "compilers": {_compiler(label): _told(one) for label, one in result.compilers.items()},
        "bugs": [bug_json(bug, found, store) for bug, found in result.bugs.values()],
        "unfinished": [_compiler(label) for label in result.cut],
        "failed_steps": [step.to_json() for step in result.failed_steps],
        "store": str(store.path),
    }


def _told(one: CompilerResult) -> dict[str, Any]:
    tried = [each for each in one.rules if not each.rule.unreachable]
    return {
        "version": one.version,
        "changed": [each.rule.name for each in tried if each.reach is Reach.FIRED],
        "changed_only_scheduled": list(one.only_scheduled),
        "raised": [each.rule.name for each in tried if each.reach is Reach.MATCHED],
        "unchanged": [each.rule.name for each in tried if each.reach is Reach.NONE],
        "not_tried": {each.rule.name: each.rule.unreachable for each in one.rules if each.rule.unreachable},
    }


def _compiler(label: str) -> str:
    return label.partition(" ")[0]


def show_passes_test(result: AuditResult, store: Store) -> None:
    """Print how many passes changed a program, which never did, and the bugs found."""
    out = Screen(width=None if sys.stdout.isatty() else 150, highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("compiler", "version"):
        table.add_column(column, no_wrap=True)
    for column in ("passes", "tried", "changed a program", "only raised", "changed nothing"):
        table.add_column(column, justify="right")
    told = {label: _told(one) for label, one in result.compilers.items()}
    for label, one in result.compilers.items():
        counts = {key: len(told[label][key]) for key in ("changed", "raised", "unchanged", "not_tried")}
        tried = len(one.rules) - counts["not_tried"]
        row = (len(one.rules), tried, counts["changed"], counts["raised"], counts["unchanged"])
        table.add_row(_compiler(label), one.version, *map(str, row))
    out.print(table)
    for label, counted in told.items():
        if names := counted["changed_only_scheduled"]:
            more = f"{plural(len(names), 'pass', 'passes')} changed functions with schedule primitives alone"
            out.print(f"\n{_compiler(label)}: {more}: {', '.join(names)}.")
        if names := counted["unchanged"]:
            rest = f" and {len(names) - MOST_NAMES} more (--json has them all)" if len(names) > MOST_NAMES else ""
            out.print(f"\n{_compiler(label)}: no program was changed by {', '.join(names[:MOST_NAMES])}{rest}.")
    out.print()
    if result.bugs:
        found = plural(len(result.bugs), "wrong pass result")
        out.print(f"[bold]{found}[/], each checked with the pass and without it:\n")
        show_bugs(out, result, store)
    else:
        out.print(f"No pass was seen to go wrong in {duration(result.seconds)}. A longer --budget looks further.")
    if result.cut:
        out.print(f"\nThe time was spent before all was done with {', '.join(map(_compiler, result.cut))}.")
        out.print(f"Go on:         {go_on('passes test', result.seconds, store)}", soft_wrap=True)
