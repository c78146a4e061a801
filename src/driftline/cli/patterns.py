"""`driftline patterns`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driftline.cli.auditing import run_audit
from driftline.cli.common import (
    Ticker,
    jobs_option,
    json_option,
    note,
    parse_budget,
    print_json,
    seed_option,
    store_option,
)
from driftline.cli.filled import filled
from driftline.cli.llm_options import llm_cost_option, llm_tokens_option, settings_of_model
from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean

if TYPE_CHECKING:
    from driftline.checking.checker import Checker
    from driftline.core.rule import Rule
    from driftline.events import Listener
    from driftline.patterns.audit import AuditResult

_COMPILERS = "inductor,onnxruntime,tvm,onnxscript"


@click.group()
def patterns() -> None:
    """Audit the compilers' own rewrite rules.

    Every rewrite rule is a claim that two programs mean the same. Driftline lists the rules of TorchInductor, ONNX
    Runtime, TVM and onnxscript, builds a program that fires each, changes what the rule does not look at, and checks
    the claim.

    \b
      driftline patterns list --only '*softmax*'
      driftline patterns show 89bf1dea
      driftline patterns describe mm_plus_mm
      driftline patterns audit --budget 30m
      driftline patterns audit --only 'inductor/joint_graph*' --budget 5m
      driftline patterns audit --targets inductor:device=cuda
      driftline patterns diff torch==2.12.0
    """


def _only_option(function: Any) -> Any:
    return click.option(
        "--only", metavar="GLOB", default="", help="Rules by id, name, group, compiler or compiler/group/name."
    )(function)


def _compilers_option(function: Any) -> Any:
    return click.option(
        "--compilers",
        "--targets",
        metavar="C1,C2",
        help=f"Whose rules; default: all that are installed of {_COMPILERS}. inductor:device=cuda: on a GPU.",
    )(function)


@patterns.command("list")
@_only_option
@_compilers_option
@json_option
def list_rules(only: str, compilers: str | None, as_json: bool) -> int:
    """List every rule: its id, where it stands, what it needs, and why it cannot fire here, if so.

    With --compilers xla, tensorflow-xla or tflite: the passes and fusions that language models can aim at.
    """
    from driftline.patterns.audit import chosen
    from driftline.report.audits import show_rules

    versions, rules = _rules(compilers)
    wanted = [rule for rule in rules if chosen(rule, only)]
    if only and not wanted:
        raise DriftlineError(f"--only {only}: no rule is called so.{did_you_mean(only, [r.name for r in rules])}")
    if as_json:
        print_json({"schema": 1, "versions": versions, "rules": [rule.to_json() for rule in wanted]})
    else:
        show_rules(wanted, whole=bool(only))
    return 0


@patterns.command("show")
@click.argument("rule")
@json_option
def show(rule: str, as_json: bool) -> int:
    """Show one rule: its pattern as a tree, its source, a program that fires it, and what it leaves free.

    RULE is an id or a name from `driftline patterns list`; `xla/fusion` where several compilers have one of that name.
    """
    from driftline.patterns.describe import describe
    from driftline.report.audits import show_rule

    with _checker() as checker:
        described = describe(checker, rule)
    if as_json:
        print_json({"schema": 1, **described})
    else:
        show_rule(described)
    return 0


@dataclass(frozen=True)
class _DescribeOptions:
    """The options of `driftline patterns describe`."""

    every: bool
    only: str
    llm_tokens: int | None
    llm_cost: float | None


@patterns.command("describe")
@click.argument("rule", required=False)
@click.option("--all", "every", is_flag=True, help="All rules that can fire here.")
@_only_option
@llm_tokens_option
@llm_cost_option
@store_option
@json_option
@filled(_DescribeOptions)
def describe_command(rule: str | None, asked: _DescribeOptions, store: Path, as_json: bool) -> int:
    """Ask a language model what a program needs for a rule to fire: a pattern in pseudo-code, and constraints.

    RULE is an id or a name from `driftline patterns list`; give --only or --all for several, of inductor or of the
    compiler that the pattern begins with, as in 'xla/*'. What it says is kept in
    the store, and asked for again only when the rule's source, the question or the model changes. The source of the
    rule goes to the server that OPENAI_BASE_URL or your settings name. Exit codes: 0 all described, 1 some have no
    description; 2 and 4 as everywhere.
    """
    from driftline.llm.allowance import Allowance
    from driftline.llm.client import ChatClient
    from driftline.llm.model import RecordedModel
    from driftline.llm.requirement import Analyst
    from driftline.patterns.requirements import describe_rules
    from driftline.patterns.rule_book import CompilerRules
    from driftline.report.requirements import requirements_json, show_requirements
    from driftline.store import Store

    if sum((rule is not None, asked.every, bool(asked.only))) != 1:
        raise DriftlineError("Name one RULE, or give --only GLOB, or --all.")
    settings = settings_of_model()
    allowance = Allowance.of(settings, asked.llm_tokens, asked.llm_cost)
    client = ChatClient(settings)
    with _checker() as checker, Store.create(store) as opened:
        wanted = _wanted_rules(checker, rule, asked.only)
        try:
            client.require_model(settings.analyst)
            analyst = Analyst(opened, RecordedModel(opened, client), settings.analyst)
            with Ticker(f"Asking {settings.analyst}", len(wanted)) as ticker:
                found = []
                for one in describe_rules(wanted, CompilerRules(checker, opened), analyst, settings, allowance):
                    ticker.finished(one.rule.name, one.described.problem or f"{one.tokens:,} tokens")
                    found.append(one)
        finally:
            client.close()
    if as_json:
        print_json(requirements_json(found, settings))
    else:
        show_requirements(found, settings)
    return 0 if all(one.described.requirement for one in found) else 1


def _wanted_rules(checker: Checker, rule: str | None, only: str) -> list[Rule]:
    """Find the rule of an id or name, else the rules that match a pattern and can fire."""
    from driftline.patterns.audit import chosen, rules_of
    from driftline.patterns.describe import find_rule
    from driftline.patterns.pass_rules import DESCRIBED, pass_rules

    if rule is not None:
        return [find_rule(checker, rule)]
    compiler = next((name for name in DESCRIBED if only.startswith(f"{name}/")), "inductor")
    known = pass_rules(compiler) if compiler in DESCRIBED else rules_of(checker, compiler)[1]
    rules = [one for one in known if not one.unreachable]
    wanted = [one for one in rules if chosen(one, only) or fnmatchcase(f"{one.compiler}/{one.name}", only)]
    if not wanted:
        hint = did_you_mean(only, [one.name for one in rules])
        raise DriftlineError(f"--only {only}: no rule of {compiler} is called so.{hint}")
    return wanted


@dataclass(frozen=True)
class _AuditOptions:
    """The options of `driftline patterns audit`."""

    budget: str | None
    only: str
    compilers: str | None
    jobs: int
    resume: bool
    seed: int


@patterns.command("audit")
@click.option("--budget", metavar="TIME", help="How long, all included: 90s, 10m, 1h.  [default: 30m]")
@_only_option
@_compilers_option
@jobs_option("Rules worked on at the same time.")
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the last audit in the store that did not come to its end; with a longer --budget, also with one"
    " whose time was spent.",
)
@seed_option
@store_option
@json_option
@filled(_AuditOptions)
def audit(asked: _AuditOptions, store: Path, as_json: bool) -> int:
    """Fire every rule, change what it leaves free, and check what it then makes of the program.

    What is found goes into the store and the report like a hunt's findings, with the guilty rule named. Exit codes: 0
    nothing found, 1 wrong rules found, 3 Driftline itself failed somewhere (what was found is kept), 130 interrupted
    (resume it); 2 and 4 as everywhere.
    """
    from driftline.report.audits import audit_json, show_audit
    from driftline.workbench import Workbench

    if asked.resume and (asked.only or asked.compilers):
        raise DriftlineError("--resume goes on with what was asked for then; leave out --only and --compilers.")
    seconds = parse_budget(asked.budget) if asked.budget else None
    wanted = None if asked.resume else _named(asked.compilers)
    with Workbench(store, jobs=asked.jobs) as bench:

        def ask(listener: Listener) -> AuditResult:
            return bench.audit(
                seconds=seconds,
                compilers=wanted,
                only=asked.only,
                seed=asked.seed,
                resume=asked.resume,
                listener=listener,
            )

        def show_found(result: AuditResult) -> None:
            if as_json:
                print_json(audit_json(result, bench.store))
            else:
                show_audit(result, bench.store)

        again = ["driftline", "patterns", "audit", "--resume", "--store", store]
        return run_audit("Auditing rewrite rules", seconds or 1800.0, ask, show_found, again)


@patterns.command("diff")
@click.argument("other_torch_env")
@json_option
def diff(other_torch_env: str, as_json: bool) -> int:
    """Compare Inductor's rules with those of another torch: added, removed, changed.

    OTHER_TORCH_ENV is a release that was installed with `driftline env add torch==2.12.0`, a virtualenv, a python, or
    a list saved with `driftline patterns list --json` on another machine.
    """
    from driftline.patterns.audit import rules_of
    from driftline.patterns.diff import Listed, difference, listed_in
    from driftline.report.audits import show_difference

    with _checker() as checker:
        other = listed_in(checker, other_torch_env)
        found = difference(other, Listed(*rules_of(checker, "inductor")))
    if as_json:
        print_json(found.to_json())
    else:
        show_difference(found)
    return 0


def _named(text: str | None) -> Sequence[str]:
    """As they were given, perhaps with a device, when all of them are here."""
    chosen = _compilers(text)
    return chosen if text is None else _split(text)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _compilers(text: str | None) -> tuple[str, ...]:
    from driftline.patterns.audit import available_compilers, chosen_compilers, split_device

    if text is None:
        for name, reason in available_compilers().items():
            if reason:
                note(f"driftline: {name} is left out: {reason}")
        return chosen_compilers(None)
    return chosen_compilers(split_device(_split(text))[0])


def _rules(compilers: str | None) -> tuple[dict[str, str], list[Rule]]:
    from driftline.patterns.audit import all_rules_of, require_device, split_device
    from driftline.patterns.pass_rules import DESCRIBED, listed_passes

    versions: dict[str, str] = {}
    rules: list[Rule] = []
    asked = None if compilers is None else _split(compilers)
    for name in asked or ():
        if name in DESCRIBED:
            versions[name], found = listed_passes(name)
            rules += found
    others = asked and [name for name in asked if name not in DESCRIBED]
    if rules and not others:
        return versions, rules
    with _checker() as checker:
        device = split_device(others)[1]
        require_device(checker.pool, device)
        for name in _compilers(None if others is None else ",".join(others)):
            for version, found in all_rules_of(checker, name, device).values():
                versions[name] = version
                rules += found
    return versions, rules


class _checker:
    """A checker with a pool of its own."""

    def __init__(self, jobs: int = 2) -> None:
        self._jobs = jobs

    def __enter__(self) -> Any:
        from driftline.checking.checker import Checker
        from driftline.execute.pool import Pool

        self._pool = Pool()
        return Checker(self._pool, self._jobs)

    def __exit__(self, *_: object) -> None:
        self._pool.close()
