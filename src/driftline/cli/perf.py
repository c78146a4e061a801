"""`driftline perf`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.common import (
    Activity,
    json_option,
    note,
    parse_budget,
    plugin_option,
    print_json,
    seed_option,
    sizes_options,
    store_option,
    trust_option,
)
from driftline.cli.completing import complete_program, complete_targets
from driftline.cli.filled import filled
from driftline.core.errors import NOTHING_COMPARED, DriftlineError
from driftline.core.plugins import plugin_words
from driftline.core.quoting import shell

if TYPE_CHECKING:
    from driftline.perf.journal import PerfHuntEntry
    from driftline.workbench import Workbench

_ONE_BASELINE = "--twin compares two programs on one target; leave out --against."


@dataclass(frozen=True)
class _CheckOptions:
    """The options of `driftline perf check`."""

    targets: str
    against: str | None
    twin: str | None
    ratio: float
    repeat: int
    growth: bool
    nodes: int
    exponent: float
    seconds: float
    dims: tuple[str, ...]
    shapes: tuple[str, ...]
    timeout: float
    seed: int


@dataclass(frozen=True)
class _SlowHuntOptions:
    """The options of `driftline perf hunt`."""

    targets: str | None
    against: str | None
    twin: str | None
    ratio: float | None
    budget: str | None
    programs: int | None
    resume: bool
    seed: int

    def validate(self) -> None:
        """Raise an error for options that cannot be used together."""
        if self.resume and (self.targets or self.against or self.twin or self.ratio or self.programs):
            raise DriftlineError(
                "--resume goes on with what was asked for then; leave out --targets, --against, --twin, --ratio and"
                " --programs."
            )
        if self.twin and self.against:
            raise DriftlineError(_ONE_BASELINE)


@click.group()
def perf() -> None:
    """Find compilers whose results are right, and that are slow.

    A target is timed in turn with a baseline, both in fresh processes, by CPU time beside wall time. First the machine
    is measured: the baseline against itself says what is noise today. A finding is a ratio whose 99 % interval lies
    beyond the limit twice in a row, the second time in other processes and in the other order. Findings are kept in
    the store with the kinds slow, slow-compile and memory.

    \b
      driftline perf check net.py:make --targets inductor,onnxruntime
      driftline perf check net.py:make --targets inductor --against eager,plain
      driftline perf check net.py:make --targets inductor --growth
      driftline perf hunt --budget 20m --targets inductor,onnxruntime
      driftline replay inductor-1f3a
    """


@perf.command("check")
@click.argument("program", shell_complete=complete_program)
@click.option(
    "--targets", shell_complete=complete_targets, metavar="T1,T2", required=True, help="Targets, as everywhere."
)
@click.option(
    "--against",
    metavar="eager|plain|TARGET,...",
    help="What a target must not be slower than: eager on the same device; plain, its own unoptimised mode; or another"
    " target, such as a former release: onnxruntime@1.15.1. Several with commas.  [default: eager; for programs that"
    " are not torch's, plain]",
)
@click.option(
    "--twin",
    metavar="layout|dtype|PROGRAM",
    help="A program of the same meaning, which must not be faster on any target: the same on tensors in another memory"
    " layout, or in another dtype of the same width, or a PROGRAM that is spelled in another way (that it computes the"
    " same is checked first).",
)
@click.option(
    "--ratio", type=click.FloatRange(1.05), default=1.5, show_default=True, help="Slower than this is a finding."
)
@click.option(
    "--repeat",
    type=click.IntRange(8),
    default=20,
    show_default=True,
    help="Rounds in which both run in turn; twice as many for the confirmation.",
)
@click.option(
    "--growth",
    is_flag=True,
    help="Also repeat the program to 10, 20, 40, ... operators, and see how compile time and peak memory grow.",
)
@click.option(
    "--nodes",
    type=click.IntRange(80, 100_000),
    default=320,
    show_default=True,
    help="For --growth: the most operators, of which 10, 20, 40, ... are compiled.",
)
@click.option(
    "--exponent",
    type=click.FloatRange(1.0),
    default=1.5,
    show_default=True,
    help="For --growth: growing faster than nodes to this power is a finding.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.0),
    default=30.0,
    show_default=True,
    help="Begin no further round after so long (eight are made in any case), and compile nothing larger.",
)
@sizes_options
@click.option(
    "--timeout", type=click.FloatRange(1.0), default=900.0, show_default=True, help="Seconds for one step of a target."
)
@seed_option
@store_option
@plugin_option
@trust_option
@json_option
@filled(_CheckOptions)
def check(program: str, asked: _CheckOptions, store: Path, plugins: tuple[str, ...], as_json: bool) -> int:
    """Say whether targets are slower on PROGRAM than they should be.

    \b
      driftline perf check net.py:make --targets inductor,onnxruntime:opt=all
      driftline perf check model.onnx --targets onnxruntime --against plain,onnxruntime@1.15.1
      driftline perf check fused.py:make --twin plain.py:make --targets inductor
      driftline perf check net.py:make --twin layout --targets inductor
      driftline perf check net.py:make --targets inductor --growth --nodes 160

    PROGRAM is as in `driftline check`, which says whether results are right; here only times are compared. By CPU
    time (on a GPU by wall time) a target is slow when the 99 % interval of the ratio lies beyond --ratio, twice, in
    different processes; where calls differ by less than 0.1 ms, it is called too short.

    Exit codes: 0 nothing is slow, 1 findings, 5 nothing was timed; 2, 3 and 4 as everywhere.
    """
    from driftline.inputs.sizes import Sizes
    from driftline.perf.text import show_perf
    from driftline.report.progress import StepProgress
    from driftline.workbench import Workbench

    if asked.twin and asked.against is not None:
        raise DriftlineError(_ONE_BASELINE)
    sizes = Sizes.parse(asked.dims, asked.shapes)
    with Workbench(store, plugins=plugins) as bench, StepProgress(f"Timing {program}") as progress:
        run = bench.perf_check(
            program,
            targets=[asked.targets],
            against=() if asked.against is None else [asked.against],
            twin=asked.twin,
            ratio=asked.ratio,
            repeat=asked.repeat,
            growth=asked.growth,
            nodes=asked.nodes,
            exponent=asked.exponent,
            seconds=asked.seconds,
            dims=sizes.dims,
            shapes=sizes.shapes,
            timeout=asked.timeout,
            seed=asked.seed,
            listener=progress,
        )
    if as_json:
        print_json(run.to_json())
    else:
        show_perf(run, store)
    if not run.measured:
        return NOTHING_COMPARED
    return 1 if run.found else 0


@perf.command("hunt")
@click.option(
    "--targets",
    shell_complete=complete_targets,
    metavar="T1,T2",
    help="Targets, as everywhere.  [default: inductor,onnxruntime]",
)
@click.option(
    "--against", metavar="eager|plain|TARGET", help="What a target must not be slower than.  [default: eager]"
)
@click.option(
    "--twin",
    type=click.Choice(["layout", "dtype"]),
    help="Instead of --against: the same program on tensors in another memory layout, or in another dtype of the same"
    " width, on the same target.",
)
@click.option("--ratio", type=click.FloatRange(1.05), help="Slower than this is a finding.  [default: 1.5]")
@click.option("--budget", metavar="TIME", help="How long, all included: 90s, 10m, 1h.  [default: 10m]")
@click.option("--programs", type=click.IntRange(1), help="Make no more programs than these.")
@click.option("--resume", is_flag=True, help="Go on with the last perf hunt in the store that was cut off.")
@seed_option
@store_option
@plugin_option
@json_option
@filled(_SlowHuntOptions)
def hunt(asked: _SlowHuntOptions, store: Path, plugins: tuple[str, ...], as_json: bool) -> int:
    """Make programs large enough to be timed, and keep those that a target makes slow.

    \b
      driftline perf hunt --budget 20m --targets inductor,onnxruntime,openvino
      driftline perf hunt --targets onnxruntime --against plain --seed 7
      driftline perf hunt --targets inductor --twin layout
      driftline perf hunt --resume

    Torch programs of one to three operators are screened with few rounds against the baseline. What is slow is cut to
    the operators that are slow by themselves, and confirmed as `perf check` does it. The same seed gives the same
    programs; what is found depends on the machine. Let nothing else run beside it.

    Exit codes: 0 nothing found, 1 findings, 5 no program was timed, 130 interrupted (resume it); 2, 3 and 4 as
    everywhere.
    """
    from driftline.perf.journal import PerfJournal
    from driftline.perf.text import hunt_json, show_hunt, was_timed
    from driftline.workbench import Workbench

    asked.validate()
    seconds = parse_budget(asked.budget) if asked.budget else None
    with Workbench(store, plugins=plugins) as bench:
        journal = PerfJournal(bench.store)
        going, before = (journal.unfinished(seconds or 0.0) if asked.resume else None), journal.last()
        try:
            limit = going.plan.seconds if going else seconds or 600.0
            result, code = _run_hunt(asked, bench, seconds, limit), 0
        except KeyboardInterrupt:
            number = going.id if going else journal.last()
            if number == before and not going:
                note("driftline: interrupted before the hunt began.")
                return 130
            result, code = journal.entry(number), 130
            command = shell(["driftline", "perf", "hunt", "--resume", "--store", store, *plugin_words()])
            note(f"driftline: interrupted; everything so far is kept. Go on with: {command}")
        if as_json:
            print_json(hunt_json(result, bench.store))
        else:
            show_hunt(result, bench.store)
    return code or (1 if result.bugs else 0 if was_timed(result) else NOTHING_COMPARED)


def _run_hunt(asked: _SlowHuntOptions, bench: Workbench, seconds: float | None, limit: float) -> PerfHuntEntry:
    """Run the hunt, with its progress on the terminal. `limit`: the seconds that the progress counts up to."""
    from driftline.perf.check import EAGER
    from driftline.perf.comparison import LIMIT

    with Activity("Hunting for slow programs", limit) as activity:
        return bench.perf_hunt(
            seconds=seconds,
            programs=asked.programs or 0,
            targets=[asked.targets] if asked.targets else None,
            against=asked.against or asked.twin or EAGER,
            ratio=asked.ratio or LIMIT,
            seed=asked.seed,
            resume=asked.resume,
            listener=activity,
        )
