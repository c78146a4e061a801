"""`driftline hunt`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driftline.cli.cause_options import causes_option, library_of
from driftline.cli.clock import elapsed
from driftline.cli.common import (
    jobs_option,
    json_option,
    note,
    parse_budget,
    plugin_option,
    print_json,
    progress_line,
    seed_option,
    store_option,
    tell_failed,
)
from driftline.cli.completing import complete_generators, complete_targets
from driftline.cli.early_end import own_hunt, show_nothing, show_so_far, summary_of_nothing
from driftline.cli.explaining import diagnose_option
from driftline.cli.llm_options import llm_cost_option, llm_table_of_run, llm_tokens_option
from driftline.cli.settings import naming_the_file, settings_of_run
from driftline.cli.verdict_options import accept_option, baseline_option
from driftline.core.closing import closing_step, exit_code_after
from driftline.core.errors import NOTHING_COMPARED, BackendUnavailable, DriftlineError
from driftline.core.full_disk import no_room
from driftline.core.quoting import shell

if TYPE_CHECKING:
    from driftline.campaign.hunt.result import HuntResult
    from driftline.campaign.hunt.settings import HuntSettings
    from driftline.causes import Library
    from driftline.report.baseline import Baseline
    from driftline.store.hunts import Hunt
    from driftline.workbench import Workbench

# Options that are fields of `HuntSettings` by the same name.
_SAME = ("seed", "timeout", "diagnose", "llm_tokens", "llm_cost", "llm_replay", "shard")
_SUFFIXES = (".html", ".md", ".csv", ".json", ".xml")


@click.command()
@click.option("--budget", metavar="TIME", help="How long to hunt, all included: 90s, 10m, 1h.  [default: 10m]")
@click.option(
    "--programs", type=click.IntRange(1), help="Stop each compiler after so many programs, instead of a time."
)
@click.option(
    "--at-least",
    "least",
    type=click.IntRange(1),
    help="Take up to twice the time, until so many programs of each compiler were judged.",
)
@click.option(
    "--targets", metavar="T1,T2", shell_complete=complete_targets, help="Targets; default: every available compiler."
)
@click.option(
    "--generators",
    metavar="G1,G2",
    shell_complete=complete_generators,
    help="Where programs come from; default: all but llm.",
)
@click.option(
    "--inputs",
    metavar="I1,I2",
    default="random,specials,boundary,symbolic",
    show_default=True,
    help="How tensors are chosen: random (ordinary numbers), specials (NaN, infinities, extremes; nan and infinities"
    " are two of them by themselves), boundary (the edges of the operators' domains), symbolic (solved, so that a"
    " small torch program becomes NaN or overflows).",
)
@jobs_option("What runs at the same time: turns of compilers, and failures that are examined.")
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Run and examine programs on a Ray cluster: ray://HOST:10001, HOST:6379, auto, or local:2 (two nodes here).",
)
@click.option("--timeout", type=click.FloatRange(1), default=60.0, show_default=True, help="Seconds for one program.")
@click.option(
    "--resume",
    metavar="[N]",
    is_flag=False,
    flag_value=0,
    type=click.IntRange(0),
    help="Go on with the last hunt in the store that did not come to its end or left failing programs unexamined, or"
    " with hunt N. What was left is examined first, also when the hunt's time is over; a longer --budget gives it"
    " new programs.",
)
@click.option(
    "--shard",
    metavar="K/N",
    default="",
    help="Hunt the K-th of N parts, such as 3/8: each on a machine of its own with the same --seed, no program twice.",
)
@llm_tokens_option
@llm_cost_option
@click.option(
    "--llm-replay",
    is_flag=True,
    help="Repeat a hunt of this store with the answers that it got from its language model; no server is asked.",
)
@click.option(
    "--settings",
    "varying",
    metavar="vary|loops",
    help="Also hunt each compiler three times with other settings, drawn by the seed: one changed (vary), or several"
    " of those that say how loops are fused, tiled and unrolled (loops: inductor, iree, xla).",
)
@accept_option
@diagnose_option
@baseline_option
@causes_option
@click.option("--out", type=click.Path(path_type=Path), help="Also write the report here, as report.html for example.")
@seed_option
@store_option
@plugin_option
@json_option
def hunt(**given: Any) -> int:
    """Make programs, run them on all compilers, and keep every bug once.

    Programs come from generators: `alone` (every operator by itself, in every circumstance), `graph` (random typed
    programs), `chains` (pairs of common operators), `layers` and `idioms` (what models are made of), `constructs`
    (loops, branches, steps of training), `optests` (the operator tests of PyTorch and ONNX) and `mutate` (changes of
    programs that were interesting). Every failure is reduced to the smallest part that still fails, run again in a
    fresh process, and grouped by its cause. One more has to be named: `llm` asks a language model (OPENAI_BASE_URL,
    OPENAI_API_KEY, DRIFTLINE_LLM_MODEL) for programs that fire one rewrite rule at a time.

    \b
      driftline hunt                                     ten minutes on everything that is installed
      driftline hunt --budget 1h --targets inductor,onnxruntime --seed 7
      driftline hunt --targets inductor --settings vary  also with freezing, without vectors, ... : three are drawn
      driftline hunt --targets iree --settings loops     other fusions and tilings must compute the same
      driftline hunt --accept reduced-precision          only what is plainly wrong is a bug
      driftline hunt --generators llm --targets inductor --llm-tokens 50000
      driftline hunt --shard 3/8 --store shard-3         one of eight machines; then driftline store merge
      driftline hunt --resume                            after Ctrl-C, a crash, or a power cut
      driftline report --out report.html                 what was found, for people

    The same seed gives the same programs. Exit codes: 0 nothing found, 1 bugs found, 3 Driftline itself failed
    somewhere (what was found is kept), 4 no bugs, and a target is broken (it fails whatever it is given), 5 no program
    came to a verdict, 130 interrupted (resume it); 2 as everywhere. What --accept (or driftline.toml) names is counted
    apart and is no bug. With --baseline, bugs of the earlier run do not count; nor do those that a cause with
    `accepted = true` explains (--causes).
    """
    from driftline.core.plugins import load_plugins
    from driftline.report.hunt_progress import HuntProgress
    from driftline.store.hunts import HuntLog
    from driftline.workbench import Workbench

    with summary_of_nothing(as_json=given["as_json"]):
        load_plugins(given["plugins"])
    order = _read(given)
    with Workbench(order.store, plugins=given["plugins"], jobs=given["jobs"], library=order.library) as bench:
        older = {one.id for one in HuntLog(bench.store).hunts()}
        try:
            progress_line("Importing the compilers ...")
            with HuntProgress(elapsed()) as progress:
                result = bench.hunt(asked=order.settings, spent=elapsed(), listener=progress)
        except (DriftlineError, OSError) as error:
            _show_failed(order, bench, older, error)
            raise
        except KeyboardInterrupt:
            going = own_hunt(HuntLog(bench.store), older, resuming=order.settings.resume)
            if not going:
                raise
            return _show_interrupted(order, bench, going)
        _show(order, bench, result)
    return _exit_code(order, result)


@dataclass(frozen=True)
class _HuntOrder:
    """A hunt as the command line and the project file describe it."""

    settings: HuntSettings
    library: Library
    before: Baseline | None
    store: Path
    out: Path | None
    as_json: bool
    budget: str | None  # as it was typed


def _read(given: Mapping[str, Any]) -> _HuntOrder:
    """Validate everything that was asked for, before a store is made or a worker starts."""
    from driftline.campaign.hunt.settings import HuntSettings
    from driftline.report.baseline import read_baseline

    resuming = given["resume"] is not None
    library = library_of(given["folders"])
    before = read_baseline(given["baseline"]) if given["baseline"] else None
    agreed = _read_accept(given, resuming)
    targets = _read_targets(given, resuming)
    _require_together(given, resuming)
    seconds = parse_budget(given["budget"]) if given["budget"] else None
    if given["out"]:
        _require_report(given["out"])
    wanted = _names(given["generators"]) if given["generators"] else None
    with_model = resuming or bool(wanted and "llm" in wanted)
    if (given["llm_tokens"] or given["llm_cost"] or given["llm_replay"]) and not with_model:
        raise DriftlineError(
            "--llm-tokens, --llm-cost and --llm-replay are for the generator llm: name it with --generators."
        )
    settings = HuntSettings(
        seconds=seconds,
        programs=given["programs"] or 0,
        least=given["least"] or 0,
        targets=[targets] if targets is not None else None,
        generators=wanted,
        inputs=_names(given["inputs"]),
        settings=given["varying"] or "",
        cluster=given["cluster"] or "",
        accept=agreed,
        resume=resuming,
        number=given["resume"] or 0,
        llm=llm_table_of_run() if with_model else None,
        **{name: given[name] for name in _SAME},
    )
    return _HuntOrder(settings, library, before, given["store"], given["out"], given["as_json"], given["budget"])


def _read_accept(given: Mapping[str, Any], resuming: bool) -> tuple[str, ...]:
    """Read which arithmetic is no finding, from the command line or the project file."""
    from driftline.checking.accept import parse_accept

    typed = given["accept"]
    if resuming:
        if typed:
            raise DriftlineError("--resume goes on with what was accepted then; leave out --accept.")
        return ()
    project = settings_of_run("accept")
    return parse_accept(typed) if typed else parse_accept(project.accept, project.said_by("accept"))


def _read_targets(given: Mapping[str, Any], resuming: bool) -> str | None:
    """Read the targets, from the command line or the project file, and refuse those that are not available."""
    from driftline.campaign.check.session import require_target
    from driftline.core.target import parse_targets

    targets: str | None = given["targets"]
    said_by = ""
    if not resuming and targets is None:
        project = settings_of_run("targets")
        targets, said_by = project.targets, project.said_by("targets") if project.targets else ""
    with naming_the_file(said_by):
        for target in parse_targets(targets) if targets is not None else ():
            require_target(target)
    return targets


def _require_together(given: Mapping[str, Any], resuming: bool) -> None:
    """Refuse options that cannot be used with each other."""
    from driftline.campaign.hunt.varied import check_settings_way

    if given["varying"] is not None:
        check_settings_way(given["varying"])
        if resuming:
            raise DriftlineError("--resume goes on with the settings that were drawn then; leave out --settings.")
    if given["budget"] and given["programs"]:
        raise DriftlineError("Give --budget or --programs, not both.")
    if given["least"] and (given["programs"] or resuming):
        raise DriftlineError("--at-least is for a new hunt with a --budget; leave it out.")
    if resuming and (given["targets"] or given["generators"] or given["shard"]):
        raise DriftlineError(
            "--resume goes on with what was asked for then; leave out --targets, --generators and --shard."
        )
    with summary_of_nothing(as_json=given["as_json"]):
        if resuming and not (given["store"] / "store.db").is_file():
            raise DriftlineError(
                f"There is no store in {given['store']}, and so no unfinished hunt; leave out --resume to start one."
            )


def _require_report(out: Path) -> None:
    """Refuse early a report that cannot be written."""
    from driftline.core.output_place import require_place

    if out.suffix not in _SUFFIXES:
        raise DriftlineError(f"--out {out}: the name must end in {', '.join(_SUFFIXES)}.")
    require_place(out)


def _show_failed(order: _HuntOrder, bench: Workbench, older: Collection[int], error: Exception) -> None:
    """Print what a hunt that an error ended had found, or that it found nothing."""
    from driftline.store.hunts import HuntLog

    begun = own_hunt(HuntLog(bench.store), older, resuming=order.settings.resume)
    if begun:
        show_so_far(bench.store, begun, order.library, as_json=order.as_json)
    elif no_room(error):
        show_nothing()


def _show_interrupted(order: _HuntOrder, bench: Workbench, going: Hunt) -> int:
    """Print what an interrupted hunt found so far, and the command that goes on; return the exit code."""
    from driftline.core.plugins import plugin_words

    show_so_far(bench.store, going, order.library, as_json=order.as_json, interrupted=True)
    if going.finished:
        note("driftline: interrupted while bugs were explained; everything so far is kept.")
        return 130
    plan = going.plan  # which has a new limit once the hunt goes on under it
    seconds, programs, tokens = order.settings.seconds, order.settings.programs, order.settings.llm_tokens
    limit = ["--budget", str(order.budget)] if seconds and plan.get("seconds") != seconds else []
    limit += ["--programs", str(programs)] if programs and plan.get("programs") != programs else []
    limit += ["--llm-tokens", str(tokens)] if tokens else []
    command = shell(["driftline", "hunt", "--resume", going.id, *limit, "--store", order.store, *plugin_words()])
    note(f"driftline: interrupted; everything so far is kept. Go on with: {command}")
    return 130


def _show(order: _HuntOrder, bench: Workbench, result: HuntResult) -> None:
    """Write the report, and print what was found; what fails here is said in a line."""
    from driftline.cli import report_own_faults
    from driftline.report.diagnosis import show_diagnoses
    from driftline.report.hunts import hunt_json, show_hunt

    before = order.before
    if result.no_time:
        note(f"driftline: hunt {result.hunt.id} is not resumed, {result.no_time}; give it more with --budget.")
    failed = result.failed_steps
    if order.out:
        with closing_step(failed, f"writing {order.out}", "driftline report writes it from the store"):
            bench.report(order.out)
    with closing_step(failed, "showing what was found", "driftline bugs list shows what the store holds"):
        if order.as_json:
            known = {"baseline": before.hunt_json(result.bugs)} if before else {}
            print_json({**hunt_json(result, bench.store, order.library), **known, **result.explained.to_json()})
        else:
            show_hunt(result, bench.store, order.out, order.library)
            show_diagnoses(result.explained.bodies)
            if before:
                click.echo(before.hunt_line(result.bugs))
    tell_failed(failed)
    report_own_faults(result.internal_errors)


def _exit_code(order: _HuntOrder, result: HuntResult) -> int:
    from driftline.report.annotated import accepted_among

    known = order.before.bugs if order.before else frozenset()
    if set(result.bugs) - accepted_among(result.bugs.values(), order.library) - known:
        return 1
    if result.broken:
        return BackendUnavailable.exit_code
    return exit_code_after(result.failed_steps, 0 if result.judged or result.bugs else NOTHING_COMPARED)


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
