"""`driftline hunt`."""

from __future__ import annotations

from pathlib import Path

import click

from driftline.cli.common import json_option, note, parse_budget, plugin_option, print_json, seed_option, store_option
from driftline.cli.explaining import Explained, diagnose_option, explain
from driftline.cli.settings import naming_the_file, settings_of_run
from driftline.cli.verdict_options import baseline_option
from driftline.core.errors import NOTHING_COMPARED, DriftlineError, InternalError

_SUFFIXES = (".html", ".md", ".csv", ".json", ".xml")


@click.command()
@click.option("--budget", metavar="TIME", help="How long to hunt, all included: 90s, 10m, 1h.  [default: 10m]")
@click.option(
    "--programs", type=click.IntRange(1), help="Stop each compiler after so many programs, instead of a time."
)
@click.option("--targets", metavar="T1,T2", help="Targets; default: every available compiler.")
@click.option("--generators", metavar="G1,G2", help="Where programs come from; default: graph,optests,mutate.")
@click.option(
    "--inputs",
    metavar="I1,I2",
    default="random,specials,boundary",
    show_default=True,
    help="How tensors are chosen: random (ordinary numbers), specials (NaN, infinities, extremes), boundary (the edges"
    " of the operators' domains).",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=2, show_default=True, help="Compilers that run at the same time."
)
@click.option("--timeout", type=click.FloatRange(1), default=60.0, show_default=True, help="Seconds for one program.")
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the last hunt in the store that did not come to its end; with a longer --budget, also with one"
    " that did: what it left unexamined comes first.",
)
@diagnose_option
@baseline_option
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
    timeout: float,
    resume: bool,
    diagnose: bool,
    baseline: Path | None,
    out: Path | None,
    seed: int,
    store: Path,
    plugins: tuple[str, ...],
    as_json: bool,
) -> int:
    """Make programs, run them on all compilers, and keep every bug once.

    Programs come from generators: `graph` (random typed programs), `optests` (the operator tests of PyTorch and ONNX)
    and `mutate` (changes of programs that were interesting). Every failure is reduced to the smallest part that still
    fails, run again in a fresh process, and grouped by its cause.

    \b
      driftline hunt                                     ten minutes on everything that is installed
      driftline hunt --budget 1h --targets inductor,onnxruntime --seed 7
      driftline hunt --resume                            after Ctrl-C, a crash, or a power cut
      driftline report --out report.html                 what was found, for people

    The same seed gives the same programs. Exit codes: 0 nothing found, 1 bugs found, 3 Driftline itself failed
    somewhere (what was found is kept), 5 no program came to a verdict, 130 interrupted (resume it); 2 and 4 as
    everywhere. With --baseline, bugs of the earlier run do not count.
    """
    from driftline.campaign.diagnosis import unreported
    from driftline.campaign.hunt import Hunter
    from driftline.campaign.plan import HuntPlan, choose_lanes, resumable
    from driftline.checking.checker import Skipped
    from driftline.cli.hunt_progress import HuntProgress
    from driftline.core.plugins import load_plugins
    from driftline.core.target import parse_targets
    from driftline.execute.pool import Pool
    from driftline.generate import GENERATORS
    from driftline.inputs.strategies import INPUTS
    from driftline.report.baseline import read_baseline
    from driftline.report.hunts import hunt_json, show_hunt
    from driftline.store import Store

    load_plugins(plugins)
    before = read_baseline(baseline) if baseline else None
    said_by = ""
    if not resume and targets is None:
        settings = settings_of_run("targets")
        targets, said_by = settings.targets, settings.said_by("targets") if settings.targets else ""
    if budget and programs:
        raise DriftlineError("Give --budget or --programs, not both.")
    seconds = parse_budget(budget) if budget else 0.0 if programs else 600.0
    if resume and (targets or generators):
        raise DriftlineError("--resume goes on with what was asked for then; leave out --targets and --generators.")
    if resume and not (store / "store.db").is_file():
        raise DriftlineError(
            f"There is no store in {store}, and so no unfinished hunt; leave out --resume to start one."
        )
    if out:
        from driftline.report.formats import require_place

        if out.suffix not in _SUFFIXES:
            raise DriftlineError(f"--out {out}: the name must end in {', '.join(_SUFFIXES)}.")
        require_place(out)
    with Store.create(store) as kept:
        if resume:
            going, plan = resumable(kept, more_time=bool(budget or programs))
            if budget and seconds <= going.seconds:
                raise DriftlineError(
                    f"--budget {budget} counts from the beginning of the hunt, which has run for {going.seconds:.0f} s"
                    " already; give more than that."
                )
            load_plugins(plan.plugins)
            skipped: list[Skipped] = []
            if budget or programs:
                plan = HuntPlan(**{**vars(plan), "seconds": seconds, "programs": programs or 0})
        else:
            going = None
            with naming_the_file(said_by):
                chosen, skipped = choose_lanes(parse_targets(targets) if targets is not None else None)
            plan = HuntPlan(
                targets=tuple(str(target) for target in chosen),
                generators=_names(generators or ",".join(GENERATORS), GENERATORS),
                inputs=_names(inputs, INPUTS),
                seed=seed,
                seconds=seconds,
                programs=programs or 0,
                timeout=timeout,
                plugins=tuple(str(Path(p).resolve()) for p in plugins),
            )
        try:
            with Pool() as pool, HuntProgress(plan) as progress:
                result = Hunter(pool, kept, plan, jobs=jobs, listener=progress).run(going, skipped)
        except KeyboardInterrupt:
            command = f"driftline hunt --resume --store {store}"
            note(f"driftline: interrupted; everything so far is kept. Go on with: {command}")
            return 130
        explained = Explained()
        if diagnose:
            with Pool() as pool:
                explained = explain(unreported(result.new, result.bugs), kept, pool)
            for bug in explained.met.values():
                result.add(bug, new=bug.id in explained.new)
        if out:
            from driftline.report import write_report

            write_report(kept, out)
        if as_json:
            known = {"baseline": before.hunt_json(result.bugs)} if before else {}
            print_json({**hunt_json(result, kept), **known, **explained.to_json()})
        else:
            show_hunt(result, kept, out)
            explained.show()
            if before:
                click.echo(before.hunt_line(result.bugs))
    if result.internal_errors:
        from driftline.cli import report_internal_error

        report_internal_error(result.internal_errors[0])
        return InternalError.exit_code
    if set(result.bugs) - (before.bugs if before else set()):
        return 1
    return 0 if result.judged or result.bugs else NOTHING_COMPARED


def _names(text: str, registry: object) -> tuple[str, ...]:
    """Names from a list, each one known."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in names:
        registry.get(name)  # type: ignore[attr-defined]
    if not names:
        raise DriftlineError("An empty list was given; leave the option out to use all.")
    return names
