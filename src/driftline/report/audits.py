"""Show the result of an audit of rewrite rules in the terminal and as JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from driftline.core.config import default_store
from driftline.core.quoting import shell
from driftline.core.rule import DECOMPOSITION, LOWERING, Reach
from driftline.core.target import Target
from driftline.report.results import go_on, replay_command
from driftline.report.screen import Screen
from driftline.report.words import duration, plural
from driftline.store import Bug, Store

if TYPE_CHECKING:
    from driftline.core.rule import Rule
    from driftline.patterns.audit import AuditResult
    from driftline.patterns.diff import RulesDifference
    from driftline.patterns.found import Told

MOST_REASONS = 12


def audit_json(result: AuditResult, store: Store) -> dict[str, Any]:
    """Return the output of `patterns audit --json`; docs/json.md has the schema."""
    compilers = {name: one.counts() for name, one in result.compilers.items()}
    return {
        "schema": 1,
        "seed": result.plan.seed,
        "seconds": round(result.seconds, 1),
        "versions": {name: one.version for name, one in result.compilers.items()},
        "rules": _summed(compilers.values()),
        "compilers": compilers,
        "bugs": [bug_json(bug, found, store) for bug, found in result.bugs.values()],
        "not_reachable": [found.to_json() for found in result.out_of_reach],
        "dead": [
            {"id": one.rule.id, "name": one.rule.name, "where": one.rule.where, "reason": one.reason}
            for each in result.compilers.values()
            for one in each.rules
            if one.rule.dead and one.reach is not Reach.FIRED
        ],
        "unfinished": result.cut,
        "failed_steps": [step.to_json() for step in result.failed_steps],
        "store": str(store.path),
    }


def _summed(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    numbers: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for each in counts:
        numbers.update({key: value for key, value in each.items() if isinstance(value, int)})
        reasons.update(each["unreachable"])
    return {**numbers, "unreachable": dict(reasons.most_common())}


def bug_json(bug: Bug, found: Told, store: Store) -> dict[str, Any]:
    """Return one bug of an audit as JSON."""
    return {
        "id": bug.id,
        "status": str(bug.status),
        "fingerprint": bug.fingerprint.to_json(),
        **found.to_json(),
        "replay": replay_command(bug.id, store.path),
    }


def show_audit(result: AuditResult, store: Store) -> None:
    """Print how many rules of each compiler were built, matched and fired, why others did not fire, and the bugs
    found.
    """
    out = Screen(width=None if sys.stdout.isatty() else 150, highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("compiler", "version"):
        table.add_column(column, no_wrap=True)
    for column in ("rules", "built", "matched", "fired alone", "fired", "optimisations fired"):
        table.add_column(column, justify="right")
    for name, one in result.compilers.items():
        counts = one.counts()
        steps = [str(counts[key]) for key in ("total", "built", "matched", "fired_alone", "fired")]
        distinct = counts["optimisations"]
        table.add_row(name, one.version, *steps, f"{distinct['fired']} of {distinct['total']}")
    out.print(table)
    _show_reasons(out, result)
    out.print()
    if result.bugs:
        wrong = plural(len(result.bugs), "wrong rewrite")
        out.print(f"[bold]{wrong}[/], each checked as a user would run it:\n")
        show_bugs(out, result, store)
    else:
        out.print(f"No wrong rule was found in {duration(result.seconds)}. A longer --budget looks further.")
    if result.cut:
        out.print(f"\nThe time was spent before all was done with {', '.join(result.cut)}.")
        out.print(f"Go on:         {go_on('patterns audit', result.seconds, store)}", soft_wrap=True)
    if result.out_of_reach:
        wrong = plural(len(result.out_of_reach), "further finding")
        out.print(f"\n{wrong} only on programs that ordinary code has not been seen to write:")
        for found in result.out_of_reach:
            out.print(f"  {escape(found.rule['name'])}, {escape(found.mutation)}: {found.kind}")


def _show_reasons(out: Console, result: AuditResult) -> None:
    reasons = Counter(
        (name, one.reason)
        for name, each in result.compilers.items()
        for one in each.rules
        if one.reason and str(one.reach) != "fired"
    )
    if not reasons:
        return
    out.print("\nWhy the others did not fire:")
    for (name, reason), count in reasons.most_common(MOST_REASONS):
        out.print(f"  {count:4d}  {name}: {escape(reason)}", soft_wrap=True)
    if len(reasons) > MOST_REASONS:
        rest = sum(count for _, count in reasons.most_common()[MOST_REASONS:])
        out.print(f"  {rest:4d}  for {len(reasons) - MOST_REASONS} other reasons (--json has them all)")


def show_bugs(out: Console, result: AuditResult, store: Store) -> None:
    """Print a table of the bugs of an audit, then the script of the first one with the commands to replay and report
    it.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("bug", no_wrap=True)
    table.add_column("rule", overflow="fold")
    table.add_column("brought out by", overflow="fold")
    table.add_column("what is wrong")
    table.add_column("options", overflow="fold")
    table.add_column("status")
    for bug, one in result.bugs.values():
        options = ":".join(f"{key}={value}" for key, value in Target.parse(one.target).options)
        table.add_row(
            bug.id, escape(one.rule["name"]), escape(one.mutation), bug.fingerprint.kind, options, str(bug.status)
        )
    out.print(table)
    first, one = next(iter(result.bugs.values()))
    if one.script:
        out.print(f"\n[bold]The first one[/]: {escape(one.rule['name'])} ({one.rule['where']})\n")
        for line in one.script.splitlines():
            out.print(f"    {escape(line)}", style="cyan", soft_wrap=True)
    place = f" --store {shell([store.path])}" if store.path != default_store() else ""
    out.print(f"\nRun it again:  {replay_command(first.id, store.path)}", soft_wrap=True)
    out.print(f"Report:        driftline report{place} --out report.html", soft_wrap=True)


# -- rules -------------------------------------------------------------------------------------------------------------


_MANY = (DECOMPOSITION, LOWERING)  # kinds with an entry for every operator


def show_rules(rules: Sequence[Rule], *, whole: bool) -> None:
    """Print a table of rules in the order of the compilers' own tables. Unless `whole` is set, kinds of rules with an
    entry for every operator are only counted.
    """
    out = Screen(width=None if sys.stdout.isatty() else 160, highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("id", "compiler", "rule"):
        table.add_column(column, no_wrap=column == "id", overflow="fold")
    for column in ("stands in", "kind", "needs", "not here because"):
        table.add_column(column, overflow="fold")
    shown = [rule for rule in rules if whole or rule.kind not in _MANY]
    for rule in shown:
        needs = " ".join(f"{key}={value}" for key, value in rule.needs)
        table.add_row(
            rule.id, rule.compiler, escape(rule.name), escape(rule.group), rule.kind, escape(needs),
            escape(rule.unreachable),
        )  # fmt: skip
    out.print(table)
    out.print(f"\n{plural(len(shown), 'rule')}. One of them in full: driftline patterns show ID")
    for kind, count in Counter(rule.kind for rule in rules if rule not in shown).items():
        out.print(f"Not shown: {count:,} of kind {kind}, one for each operator: --only '{kind}/*' lists them.")


def show_rule(described: Mapping[str, Any]) -> None:
    """Print one rule in full."""
    out = Screen(width=None if sys.stdout.isatty() else 150, highlight=False)
    rule = described["rule"]
    out.print(f"[bold]{escape(rule['name'])}[/]  {rule['id']}  ({rule['compiler']} {rule['kind']})")
    facts = {
        "stands in": rule["group"],
        "source": rule["where"],
        "condition": rule["check"],
        "needs": ":".join(f"{key}={value}" for key, value in rule["needs"].items()),
        "not here because": rule["unreachable"],
    }
    for name, value in facts.items():
        if value:
            out.print(f"  {name:17} {escape(value)}", soft_wrap=True)
    parts = {
        "The pattern": described.get("tree", ""),
        "What applies it": described.get("source", ""),
        "What it is replaced by": described.get("replacement", ""),
        "A program that fires it": described.get("program", ""),
    }
    for title, text in parts.items():
        if text:
            out.print(f"\n[bold]{title}[/]")
            for line in text.rstrip().splitlines():
                out.print(f"  {escape(line)}", soft_wrap=True)
    if described.get("reason"):
        out.print(f"\nNo program fires it: {escape(described['reason'])}", soft_wrap=True)
    if described.get("free"):
        out.print("\n[bold]What it leaves free[/]")
        for label in described["free"]:
            out.print(f"  {escape(label)}")


def show_difference(found: RulesDifference) -> None:
    """Print the rules that were added, removed or changed between two torch releases."""
    out = Screen(width=None if sys.stdout.isatty() else 150, highlight=False)
    counts = f"{len(found.added)} added, {len(found.removed)} removed, {len(found.changed)} changed, {found.kept} kept"
    out.print(f"Rules of torch {found.old} and {found.new}: {counts}.")
    table = Table(box=None, pad_edge=False)
    for column in ("", "id", "rule", "stands in"):
        table.add_column(column, overflow="fold")
    rows = [
        *(("added", rule) for rule in found.added),
        *(("removed", rule) for rule in found.removed),
        *(("changed", rule) for _, rule in found.changed),
    ]
    for word, rule in rows:
        table.add_row(word, rule.id, escape(rule.name), escape(rule.group))
    if rows:
        out.print(table)
