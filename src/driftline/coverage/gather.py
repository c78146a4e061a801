"""Gather coverage from a store: what hunts, audits, checks and schedule hunts exercised, compared with what exists."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from driftline.backends import BACKENDS
from driftline.campaign.check.forms import form_of
from driftline.core.errors import DriftlineError, StoreError
from driftline.core.rule import Reach
from driftline.core.target import Target
from driftline.core.text import did_you_mean
from driftline.coverage import commands
from driftline.coverage.levels import (
    CONSTRUCTION,
    MODEL,
    OPERATOR,
    PASS,
    CellState,
    CompilerCoverage,
    Coverage,
    Level,
    ModelRow,
    RuleRow,
    state_of,
)
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.table import OPERATORS
from driftline.models.catalogue import CATALOGUE
from driftline.patterns.audit import COMPILERS as WITH_RULES
from driftline.programs.convert import accepts_directly, find_converter
from driftline.schedules.asking import TVM
from driftline.schedules.primitives import PRIMITIVES
from driftline.store import Store
from driftline.store.audits import LISTED, REACHED, AuditLog, AuditMemory
from driftline.store.checks import CheckedProgram, CheckLog
from driftline.store.exercised import Exercised, exercised
from driftline.store.hunts import Hunt, HuntLog
from driftline.store.schedules import ScheduleLog

_MODEL = "model:"  # how the name of a checked program begins that is a model of the corpus
_PRIMITIVE = "primitive "
_JUDGED = ("pass", "fail", "reduced-precision")
_GIVEN = ("pass", "fail", "inconclusive", "rejected")  # a valid program was given to the compiler

Cells = dict[str, dict[str, dict[str, int]]]


def coverage_of(store: Store, compilers: Sequence[str] | None = None) -> Coverage:
    """Return the coverage of the given compilers, by default of all compilers in the store."""
    ran, audited, hunts = exercised(store), _audited(store), HuntLog(store).hunts()
    checked: dict[str, list[CheckedProgram]] = defaultdict(list)
    with suppress(StoreError):  # a store of an earlier Driftline that may not be written has no checks
        for one in CheckLog(store).all():
            checked[Target.parse(one.target).backend].append(one)
    primitives = _primitives(store)
    known = {*ran, *audited, *checked, *({TVM.backend} if primitives else ())}
    for name in compilers or ():
        if name not in known and name not in BACKENDS:
            raise DriftlineError(f"--compilers {name}: there is no such compiler.{did_you_mean(name, [*BACKENDS])}")
    found = [
        _one(
            store,
            name,
            ran.get(name, Exercised()),
            [*audited.get(name, ()), *(_primitive_rows(primitives) if name == TVM.backend and primitives else ())],
            checked.get(name, []),
            hunts,
        )
        for name in sorted(known if compilers is None else compilers)
    ]
    return Coverage(str(store.path), tuple(found), tuple(store.gaps))


def _one(
    store: Store,
    name: str,
    ran: Exercised,
    rules: list[RuleRow],
    checked: list[CheckedProgram],
    hunts: Sequence[Hunt],
) -> CompilerCoverage:
    told = {rule.id for rule in rules}
    rules = [
        *(replace(rule, fired=rule.fired or rule.id in ran.rules) for rule in rules),
        *(RuleRow(rule, rule, fired=True) for rule in sorted(ran.rules - told)),
    ]
    cells, listed = _cells(name, ran)
    models = _models(name, checked)
    versions = dict.fromkeys(
        [
            *(v for h in hunts for t, v in (h.environment.get("versions") or {}).items() if _is(t, name) and v),
            *(one.version for one in checked if one.version),
        ]
    )
    levels = (
        _construction(store, name, ran, cells, listed, hunts),
        _passes(store, name, rules, audited=bool(told)),
        _operators(store, name, ran, cells, listed, hunts),
        _model_level(store, name, models),
    )
    return CompilerCoverage(
        name, tuple(versions), ran.programs, ran.seconds, cells, frozenset(listed), tuple(rules), models, levels
    )


def _is(target: str, compiler: str) -> bool:
    return Target.parse(target).backend == compiler


# -- operators and dtypes ----------------------------------------------------------------------------------------------


def _cells(name: str, ran: Exercised) -> tuple[Cells, dict[str, tuple[str, ...]]]:
    """Return the counts of every operator and dtype: operators of the table that can be written for the compiler, even
    if they never ran, and further operators from suites. Also return the operators of the table with their dtypes.
    """
    form = form_of(BACKENDS.get(name)) if name in BACKENDS else None
    listed = {
        operator.name: written.dtypes
        for operator in OPERATORS.values()
        if form and (written := operator.form(LANGUAGE[form]))
    }
    cells: Cells = {operator: {dtype: {} for dtype in dtypes} for operator, dtypes in listed.items()}
    for (operator, dtype), counts in sorted(ran.pairs.items()):
        cells.setdefault(operator, {})[dtype] = dict(counts)
    return cells, listed


def _pairs(cells: Cells, listed: Mapping[str, Iterable[str]]) -> dict[str, dict[str, int]]:
    """Return the cells that the percentages count, by `operator dtype`."""
    return {f"{operator} {dtype}": cells[operator][dtype] for operator, dtypes in listed.items() for dtype in dtypes}


def _construction(
    store: Store, name: str, ran: Exercised, cells: Cells, listed: Mapping[str, Iterable[str]], hunts: Sequence[Hunt]
) -> Level:
    pairs = _pairs(cells, listed)
    missing = tuple(pair for pair, counts in pairs.items() if not any(counts.get(word) for word in _GIVEN))
    note = "" if pairs else "No generator writes programs for it."
    command = commands.hunt(store, name, ran, len(missing), len(pairs), hunts) if missing else ""
    return Level(CONSTRUCTION, len(pairs) - len(missing), len(pairs), missing, command, note)


def _operators(
    store: Store, name: str, ran: Exercised, cells: Cells, listed: Mapping[str, Iterable[str]], hunts: Sequence[Hunt]
) -> Level:
    pairs = _pairs(cells, listed)
    states = {pair: state_of(counts) for pair, counts in pairs.items()}
    declined = sum(state is CellState.DECLINED for state in states.values())
    missing = tuple(pair for pair, state in states.items() if state in (CellState.NEVER, CellState.UNJUDGED))
    total = len(pairs) - declined
    note = f"{declined:,} more are declined as not supported." if declined else ""
    command = commands.hunt(store, name, ran, len(missing), len(pairs), hunts) if missing else ""
    return Level(OPERATOR, total - len(missing), total, missing, command, note if pairs else "")


# -- rules and passes --------------------------------------------------------------------------------------------------


def _audited(store: Store) -> dict[str, list[RuleRow]]:
    """Return the rules of each compiler as listed by the audits of the store. A rule has fired if it fired in any
    audit.
    """
    rules: dict[str, dict[str, RuleRow]] = defaultdict(dict)
    fired: set[str] = set()
    for entry in AuditLog(store).entries():
        memory = AuditMemory(store, entry)
        for label, listed in memory.kept(LISTED).items():
            rows = {rule: RuleRow(rule, told["name"], False, told["unreachable"]) for rule, told in listed.items()}
            rules[label.partition(" ")[0]] |= rows
        for reached in memory.kept(REACHED).values():
            fired |= {rule for rule, reach in reached.items() if reach == Reach.FIRED}
        # A killed audit has stored only the results of single rules.
        fired |= {rule for rule, body in memory.kept("fired").items() if body.get("reach") == Reach.FIRED}
    return {name: [replace(row, fired=row.id in fired) for row in rows.values()] for name, rows in rules.items()}


def _primitives(store: Store) -> Counter[str]:
    log = ScheduleLog(store)
    taken: Counter[str] = Counter()
    with suppress(StoreError):  # as above
        for hunt in log.hunts():
            for body in log.batches(hunt).values():
                taken.update(body.primitives)
    return taken


def _primitive_rows(taken: Mapping[str, int]) -> list[RuleRow]:
    return [RuleRow(f"{_PRIMITIVE}{name}", f"{_PRIMITIVE}{name}", bool(taken.get(name))) for name in PRIMITIVES]


def _passes(store: Store, name: str, rules: Sequence[RuleRow], *, audited: bool) -> Level:
    here = [rule for rule in rules if rule.fired or not rule.unreachable]
    fired = sum(rule.fired for rule in here)
    if name not in WITH_RULES and not rules:
        return Level(PASS, 0, 0, note="Its rules cannot be listed.")
    if not audited:
        seen = f" {fired:,} fired in hunts." if fired else ""
        note = f"No audit of this store listed its rules.{seen}"
        return Level(PASS, fired, 0, ("all that an audit lists",), commands.audit(store, name), note)
    missing = tuple(rule.name for rule in here if not rule.fired)
    apart = len(rules) - len(here)
    note = f"{apart:,} more cannot fire on this machine." if apart else ""
    command = commands.audit if name in WITH_RULES else commands.passes
    return Level(PASS, fired, len(here), missing, command(store, name) if missing else "", note)


# -- models ------------------------------------------------------------------------------------------------------------


def _models(name: str, checked: Sequence[CheckedProgram]) -> tuple[ModelRow, ...]:
    """Return the small models of the corpus that the compiler accepts, and all other checked programs."""
    runs: Counter[str] = Counter()
    fails: Counter[str] = Counter()
    judged: dict[str, Counter[str]] = defaultdict(Counter)
    for one in checked:
        runs[one.name] += one.runs
        fails[one.name] += one.fails
        word = "pass" if one.judgement == "reduced-precision" else one.judgement
        judged[one.name][word] += 1
    corpus = [f"{_MODEL}{entry}" for entry in _corpus(name)]
    names = [*corpus, *(program for program in runs if program not in corpus)]
    return tuple(ModelRow(model, state_of(judged[model]), runs[model], fails[model]) for model in names)


def _corpus(name: str) -> list[str]:
    if name not in BACKENDS:
        return []
    accepts = BACKENDS.get(name).accepts
    return [
        entry.name
        for entry in CATALOGUE.values()
        if entry.size == "small"
        and (accepts_directly("source", entry.form, accepts) or find_converter("source", entry.form, accepts))
    ]


def _model_level(store: Store, name: str, models: Sequence[ModelRow]) -> Level:
    listed = {f"{_MODEL}{entry}" for entry in _corpus(name)}
    declined = sum(row.name in listed and row.state is CellState.DECLINED for row in models)
    missing = tuple(
        row.name for row in models if row.name in listed and row.state in (CellState.NEVER, CellState.UNJUDGED)
    )
    own = sum(row.name not in listed for row in models)
    note = f"{own:,} other {'program was' if own == 1 else 'programs were'} checked." if own else ""
    total = len(listed) - declined
    command = commands.check(store, name, missing[0]) if missing else ""
    return Level(MODEL, total - len(missing), total, missing, command, note)
