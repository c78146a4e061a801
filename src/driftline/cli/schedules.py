"""`driftline schedules`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.common import (
    Activity,
    jobs_option,
    json_option,
    note,
    parse_budget,
    print_json,
    seed_option,
    store_option,
)
from driftline.cli.completing import complete_bugs
from driftline.cli.filled import filled
from driftline.core.errors import NOTHING_COMPARED, BackendUnavailable, DriftlineError
from driftline.core.quoting import shell

if TYPE_CHECKING:
    from driftline.schedules.requests import Performed


@click.group()
def schedules() -> None:
    """Hunt for bugs in TVM's schedule primitives.

    A schedule says how a tensor program is computed, never what: after any sequence of primitives that TVM accepts the
    program must compute what it did before. Driftline draws such sequences, compiles and runs them, and reduces what
    is wrong to the two or three primitives that matter.

    \b
      driftline schedules list
      driftline schedules hunt --budget 10m
      driftline schedules hunt --functions matmul,softmax --target "llvm -mcpu=generic"
      driftline schedules hunt --functions model:resnet
      driftline schedules replay tvm-1f3a
      driftline schedules export tvm-1f3a --out bug.py
    """


@schedules.command("list")
@json_option
def list_all(as_json: bool) -> int:
    """List the functions, the primitives, and what TVM leaves to the caller."""
    from driftline.report.schedules import listing, show_listing

    if as_json:
        print_json(listing())
    else:
        show_listing()
    return 0


@dataclass(frozen=True)
class _ScheduleHuntOptions:
    """The options of `driftline schedules hunt`."""

    budget: str | None
    functions: str | None
    tvm_target: str | None
    space: str | None
    jobs: int
    resume: bool
    seed: int


@schedules.command("hunt")
@click.option("--budget", metavar="TIME", help="How long, all included: 90s, 10m, 1h.  [default: 10m]")
@click.option(
    "--functions",
    metavar="F1,F2",
    help="Functions to schedule, and models (model:NAME, FILE.onnx) whose kernels are; default: all of `driftline"
    " schedules list`.",
)
@click.option(
    "--target", "tvm_target", metavar="TARGET", help="TVM's target, such as 'llvm -mcpu=generic'.  [default: llvm]"
)
@click.option(
    "--space",
    type=click.Choice(["random", "meta"]),
    help="Where steps come from: random primitives, or the search spaces of TVM's own tuner, MetaSchedule."
    "  [default: random]",
)
@jobs_option("Schedules at the same time.")
@click.option("--resume", is_flag=True, help="Go on with the last schedule hunt in the store that was cut off.")
@seed_option
@store_option
@json_option
@filled(_ScheduleHuntOptions)
def hunt(asked: _ScheduleHuntOptions, store: Path, as_json: bool) -> int:
    """Draw schedules, run them, and keep every bug once.

    The same seed gives the same schedules. Exit codes: 0 nothing found, 1 bugs found, 5 no schedule came to its end
    in time, 130 interrupted (resume it); 2 and 4 as everywhere.
    """
    from driftline.backends.tvm_target import read_target
    from driftline.execute.pool import Pool
    from driftline.report.schedules import schedule_hunt_json, show_schedule_hunt
    from driftline.schedules.hunt import ScheduleHunt, SchedulePlan, resumed
    from driftline.schedules.trace import RANDOM
    from driftline.store import Store

    if asked.resume and (asked.functions or asked.tvm_target or asked.space):
        raise DriftlineError("--resume goes on with what was asked for then; leave out --functions, --target, --space.")
    seconds = parse_budget(asked.budget) if asked.budget else 0.0
    plan = SchedulePlan(
        _functions(asked.functions),
        read_target(asked.tvm_target or "llvm"),
        asked.space or RANDOM,
        seconds or 600.0,
        asked.seed,
    )
    _require_tvm()
    with Store.create(store) as kept, Pool() as pool:
        entry = None
        if asked.resume:
            entry, plan = resumed(kept, seconds=seconds)
        try:
            with Activity("Hunting among schedules", plan.seconds) as activity:
                result = ScheduleHunt(pool, kept, plan, entry=entry, jobs=asked.jobs, listener=activity).run()
        except KeyboardInterrupt:
            command = shell(["driftline", "schedules", "hunt", "--resume", "--store", store])
            note(f"driftline: interrupted; everything so far is kept. {activity.so_far()} Go on with: {command}")
            return 130
        if as_json:
            print_json(schedule_hunt_json(result, kept))
        else:
            show_schedule_hunt(result, kept)
    if not result.schedules and not result.bugs:
        return NOTHING_COMPARED
    return 1 if result.bugs else 0


@schedules.command("replay")
@click.argument("subject", metavar="BUG|TRACE.json", shell_complete=complete_bugs)
@store_option
@json_option
def replay(subject: str, store: Path, as_json: bool) -> int:
    """Run a schedule again in a fresh process. Exit code 0: it passes or TVM refuses it; 1: it fails.

    BUG is a name from `driftline bugs list`; TRACE.json is a trace, as `driftline schedules export --as trace` writes
    it.
    """
    from driftline.execute.pool import Pool
    from driftline.schedules.asking import ScheduleAsker
    from driftline.schedules.trace import read_trace

    _require_tvm()
    if not subject.endswith(".json"):
        return replay_schedule(subject, store, as_json)
    path = Path(subject)
    if not path.is_file():
        raise DriftlineError(f"{subject}: there is no such file.")
    trace = read_trace(path.read_bytes())
    with Pool() as pool:
        (found,) = ScheduleAsker(pool).perform([trace], fresh=True)
    return _show(found, as_json)


def replay_schedule(bug: str, store: Path, as_json: bool) -> int:
    """Run a stored schedule again, and note in the store whether it still fails."""
    from driftline.execute.pool import Pool
    from driftline.schedules.recording import note_replay
    from driftline.schedules.replay import perform_again
    from driftline.store import Store

    _require_tvm()
    with Store.open(store) as kept, Pool() as pool:
        stored = kept.bug(bug)
        found = perform_again(kept, stored, pool)
        note_replay(kept, stored, found)
    return _show(found, as_json)


def _show(found: Performed, as_json: bool) -> int:
    from driftline.report.schedules import performed_json, reason

    if as_json:
        print_json(performed_json(found))
    else:
        click.echo(reason(found))
    return 1 if found.fails else 0


@schedules.command("export")
@click.argument("bug", shell_complete=complete_bugs)
@click.option(
    "--as", "form", type=click.Choice(["script", "trace"]), default="script", show_default=True, help="What to write."
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write; default: stdout.")
@store_option
def export(bug: str, form: str, out: Path | None, store: Path) -> int:
    """Write a schedule's bug as a script of plain TVM, or its trace as JSON.

    The script is run in a clean process before it is called valid: it must end with an error, or die, as the bug does.
    Exit code 0: valid; 1: not valid, and the reason is said.
    """
    from driftline.core.output_place import require_place
    from driftline.core.streams import write_exactly
    from driftline.report.export.schedule import export_schedule
    from driftline.report.formats import write
    from driftline.schedules.recording import trace_of
    from driftline.store import Store

    if out:
        require_place(out, example="bug.py" if form == "script" else "trace.json")
    with Store.open(store) as kept:
        stored = kept.bug(bug)
        trace = trace_of(kept.load_case(stored.findings[0].case_id))
    if form == "trace":
        text, told, valid = trace.dump().decode() + "\n", "", True
    else:
        _require_tvm()
        made = export_schedule(stored, trace)
        text, valid = made.text, made.valid
        told = f"valid: {made.reason}; {made.lines} lines." if valid else f"not valid: {made.reason}."
    if out:
        write(out, text)
    else:
        write_exactly(text)
    if told:
        note(told + (f" Written to {out}." if out else ""))
    return 0 if valid else 1


def _functions(text: str | None) -> tuple[str, ...]:
    from driftline.schedules.functions import NAMES, function_named
    from driftline.schedules.kernels import is_model

    if text is None:
        return NAMES
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise DriftlineError("An empty list was given; leave --functions out to take all.")
    return tuple(name if is_model(name) else function_named(name).name for name in names)


def _require_tvm() -> None:
    from driftline.backends import BACKENDS

    backend = BACKENDS.get("tvm")
    found = backend.installed()
    if not found.available:
        raise BackendUnavailable(f"TVM is not available: {found.reason}. Install it with: {backend.install_command}")
