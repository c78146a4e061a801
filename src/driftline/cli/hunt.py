"""`driftline hunt`."""

from __future__ import annotations

from pathlib import Path

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
)
from driftline.cli.completing import complete_generators, complete_targets
from driftline.cli.explaining import diagnose_option
from driftline.cli.llm_options import llm_cost_option, llm_tokens_option
from driftline.cli.settings import naming_the_file, settings_of_run
from driftline.cli.verdict_options import accept_option, baseline_option
from driftline.core.errors import NOTHING_COMPARED, DriftlineError, InternalError
from driftline.core.quoting import shell

_SUFFIXES = (".html", ".md", ".csv", ".json", ".xml")


@click.command()
@click.option("--budget", metavar="TIME", help="How long to hunt, all included: 90s, 10m, 1h.  [default: 10m]")
@click.option(
    "--programs", type=click.IntRange(1), help="Stop each compiler after so many programs, instead of a time."
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
    is_flag=True,
    help="Go on with the last hunt in the store that did not come to its end; with a longer --budget, also with one"
    " that did: what it left unexamined comes first.",
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
def hunt(
    budget: str | None,
    programs: int | None,
    targets: str | None,
    generators: str | None,
    inputs: str,
    jobs: int,
    cluster: str | None,
    timeout: float,
    resume: bool,
    shard: str,
    llm_tokens: int | None,
    llm_cost: float | None,
    llm_replay: bool,
    varying: str | None,
    accept: tuple[str, ...],
    diagnose: bool,
    baseline: Path | None,
    folders: tuple[Path, ...],
    out: Path | None,
    seed: int,
    store: Path,
    plugins: tuple[str, ...],
    as_json: bool,
) -> int:
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
    somewhere (what was found is kept), 5 no program came to a verdict, 130 interrupted (resume it); 2 and 4 as
    everywhere. What --accept (or driftline.toml) names is counted apart and is no bug. With --baseline, bugs of the
    earlier run do not count; nor do those that a cause with `accepted = true` explains (--causes).
    """
    from driftline.campaign.hunt import hunt_so_far
    from driftline.campaign.session import require_target
    from driftline.campaign.varied import check_settings_way
    from driftline.checking.accept import parse_accept
    from driftline.core.plugins import load_plugins, plugin_words
    from driftline.core.target import parse_targets
    from driftline.report.annotated import accepted_among
    from driftline.report.baseline import read_baseline
    from driftline.report.diagnosis import show_diagnoses
    from driftline.report.hunt_progress import HuntProgress
    from driftline.report.hunts import hunt_json, show_hunt
    from driftline.store.hunts import HuntLog
    from driftline.workbench import Workbench

    load_plugins(plugins)
    library = library_of(folders)
    before = read_baseline(baseline) if baseline else None
    said_by = ""
    agreed: tuple[str, ...] = ()
    if not resume:
        project = settings_of_run("accept")
        agreed = parse_accept(accept) if accept else parse_accept(project.accept, project.said_by("accept"))
    elif accept:
        raise DriftlineError("--resume goes on with what was accepted then; leave out --accept.")
    if not resume and targets is None:
        settings = settings_of_run("targets")
        targets, said_by = settings.targets, settings.said_by("targets") if settings.targets else ""
    with naming_the_file(said_by):
        for target in parse_targets(targets) if targets is not None else ():
            require_target(target)
    if varying is not None:
        check_settings_way(varying)
        if resume:
            raise DriftlineError("--resume goes on with the settings that were drawn then; leave out --settings.")
    if budget and programs:
        raise DriftlineError("Give --budget or --programs, not both.")
    seconds = parse_budget(budget) if budget else None
    if resume and (targets or generators or shard):
        raise DriftlineError(
            "--resume goes on with what was asked for then; leave out --targets, --generators and --shard."
        )
    if resume and not (store / "store.db").is_file():
        raise DriftlineError(
            f"There is no store in {store}, and so no unfinished hunt; leave out --resume to start one."
        )
    if out:
        from driftline.core.output_place import require_place

        if out.suffix not in _SUFFIXES:
            raise DriftlineError(f"--out {out}: the name must end in {', '.join(_SUFFIXES)}.")
        require_place(out)
    wanted = _names(generators) if generators else None
    if (llm_tokens or llm_cost or llm_replay) and not resume and (wanted is None or "llm" not in wanted):
        raise DriftlineError(
            "--llm-tokens, --llm-cost and --llm-replay are for the generator llm: name it with --generators."
        )
    table = settings_of_run("llm").llm if resume or (wanted and "llm" in wanted) else None
    with Workbench(store, plugins=plugins, jobs=jobs, library=library) as bench:
        try:
            progress_line("Importing the compilers ...")
            with HuntProgress(elapsed()) as progress:
                result = bench.hunt(
                    seconds=seconds,
                    programs=programs or 0,
                    targets=[targets] if targets is not None else None,
                    generators=wanted,
                    inputs=_names(inputs),
                    seed=seed,
                    settings=varying or "",
                    cluster=cluster or "",
                    timeout=timeout,
                    accept=agreed,
                    resume=resume,
                    diagnose=diagnose,
                    llm=table,
                    llm_tokens=llm_tokens,
                    llm_cost=llm_cost,
                    llm_replay=llm_replay,
                    shard=shard,
                    spent=elapsed(),
                    listener=progress,
                )
        except KeyboardInterrupt:
            going = HuntLog(bench.store).unfinished()
            if not going:
                raise  # while bugs were explained: there is nothing to resume
            so_far = hunt_so_far(bench.store, going[0])
            if as_json:
                print_json({**hunt_json(so_far, bench.store, library), "interrupted": True})
            else:
                show_hunt(so_far, bench.store, None, library)
            plan = going[0].plan  # which has a new limit once the hunt goes on under it
            limit = ["--budget", str(budget)] if seconds and plan.get("seconds") != seconds else []
            limit += ["--programs", str(programs)] if programs and plan.get("programs") != programs else []
            command = shell(["driftline", "hunt", "--resume", *limit, "--store", store, *plugin_words()])
            note(f"driftline: interrupted; everything so far is kept. Go on with: {command}")
            return 130
        if result.no_time:
            note(f"driftline: hunt {result.hunt.id} is not resumed, {result.no_time}; give it more with --budget.")
        if out:
            bench.report(out)
        if as_json:
            known = {"baseline": before.hunt_json(result.bugs)} if before else {}
            print_json({**hunt_json(result, bench.store, library), **known, **result.explained.to_json()})
        else:
            show_hunt(result, bench.store, out, library)
            show_diagnoses(result.explained.bodies)
            if before:
                click.echo(before.hunt_line(result.bugs))
    if result.internal_errors:
        from driftline.cli import report_internal_error

        report_internal_error(result.internal_errors[0])
        return InternalError.exit_code
    excused = accepted_among(result.bugs.values(), library) | (before.bugs if before else frozenset())
    if set(result.bugs) - excused:
        return 1
    return 0 if result.judged or result.bugs else NOTHING_COMPARED


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
