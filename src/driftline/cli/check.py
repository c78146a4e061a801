"""`driftline check`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from driftline.cli.cause_options import causes_option, library_of
from driftline.cli.common import (
    jobs_option,
    json_option,
    note,
    plugin_option,
    print_json,
    seed_option,
    sizes_options,
    store_option,
    trust_option,
)
from driftline.cli.completing import complete_program, complete_targets
from driftline.cli.explaining import diagnose_option, explain
from driftline.cli.layers import look_layers, require_layers, show_views
from driftline.cli.settings import naming_the_file, settings_of_run
from driftline.cli.verdict_options import (
    accept_option,
    baseline_option,
    exit_code,
    fail_on_option,
    parse_fail_on,
)
from driftline.cli.view_page import require_page, write_page
from driftline.core.errors import DriftlineError


class _WithPresets(click.Command):
    """Its help ends with what the presets hold: backends say that themselves, those of plugins included."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from driftline.backends.presets import described

        with formatter.section("Presets of targets"):
            formatter.write_dl(list(described()))


@click.command(cls=_WithPresets)
@click.argument("program", shell_complete=complete_program)
@click.option(
    "--targets",
    shell_complete=complete_targets,
    metavar="T1,T2",
    help="Targets, or a preset of them: quick, default, all (listed below), also mixed: quick,tvm.  [default: default]",
)
@click.option(
    "--inputs",
    metavar="FILE.npz|example|random|specials|symbolic",
    default="example",
    show_default=True,
    help="Where the tensors come from: a file, the program's own example, normal random numbers, or NaN, infinities,"
    " signed zeros, subnormals and extremes among them (in a model: in single places); symbolic: inputs that a solver"
    " finds, on which the program becomes NaN, overflows or loses its digits (see `driftline inputs`).",
)
@sizes_options
@click.option("--samples", type=click.IntRange(1), default=1, show_default=True, help="Number of input samples.")
@click.option(
    "--reference",
    metavar="PROGRAM",
    help="The model that PROGRAM was made from (.onnx, .pt2, file.py:name): it says what is right; PROGRAM is run.",
)
@click.option("--layers", is_flag=True, help="Show the error layer by layer, and the first layer that leaves the band.")
@click.option(
    "--taps",
    metavar="auto|blocks|all",
    default="auto",
    show_default=True,
    help="For --layers: the ends of blocks, then inside the first bad block (auto); only the ends; or every value.",
)
@click.option(
    "--pairwise",
    is_flag=True,
    help="Show all targets, and the reference, against each other: how far apart they are, and who sides with whom.",
)
@click.option(
    "--across",
    metavar="isa",
    help="Run each compiler on every instruction set of this machine that it can be told to use, and show where bits"
    " differ.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="For --layers, --pairwise and --across: also write the view as a page.",
)
@click.option("--grad", is_flag=True, help="Compare gradients too (torch targets).")
@click.option("--signed-zero", is_flag=True, help="Also tell -0.0 from 0.0.")
@click.option("--stress", is_flag=True, help="Also call compiled programs from several threads, where they allow it.")
@click.option(
    "--lift/--no-lift",
    default=None,
    help="Also check a half-precision program in float32, where small bugs show.  [default: unless it is large]",
)
@click.option(
    "--oracle",
    metavar="shadow|allclose:rtol=R,atol=A",
    default="shadow",
    show_default=True,
    help="The rounding-noise rule, or a plain tolerance against the unoptimised run.",
)
@click.option(
    "--disagreements",
    type=click.Choice(["tell", "fail"]),
    default="tell",
    show_default=True,
    help="Targets that disagree with each other where the specification is silent: only a line, or exit code 1."
    " A choice that rounding decides is a line in either case.",
)
@accept_option
@fail_on_option
@baseline_option
@causes_option
@click.option("--timeout", type=click.FloatRange(0.1), help="Seconds for one target.  [default: 300]")
@click.option("--memory", type=click.IntRange(1), default=8, show_default=True, help="GiB of memory for one target.")
@diagnose_option
@jobs_option("Targets that run at the same time.")
@seed_option
@store_option
@plugin_option
@trust_option
@json_option
def check(
    program: str,
    targets: str | None,
    inputs: str,
    dims: tuple[str, ...],
    shapes: tuple[str, ...],
    samples: int,
    reference: str | None,
    layers: bool,
    taps: str,
    pairwise: bool,
    across: str | None,
    out: Path | None,
    grad: bool,
    signed_zero: bool,
    stress: bool,
    lift: bool | None,
    oracle: str,
    disagreements: str,
    accept: tuple[str, ...],
    fail_on: str | None,
    baseline: Path | None,
    folders: tuple[Path, ...],
    timeout: float | None,
    memory: int,
    diagnose: bool,
    jobs: int,
    seed: int,
    store: Path,
    plugins: tuple[str, ...],
    as_json: bool,
) -> int:
    """Run PROGRAM on many compilers and say which of them is wrong.

    PROGRAM is model.onnx, model.pt2, model.pt (TorchScript), model:NAME (see `driftline models list`), or file.py:name,
    where `name` is a function without arguments that returns (callable, inputs): an nn.Module or torch function, a
    Keras model or tf.function, a JAX function or an ONNX model, with a tuple or dict of example inputs.

    \b
    Targets are written backend[@version][:option=value...]:
      driftline check model.onnx --targets onnxruntime,onnxruntime:opt=off,openvino
      driftline check net.py:make --targets inductor:freezing=true --inputs specials --samples 8
      driftline check net.py:make --targets onnxruntime@1.15.1     (after driftline env add onnxruntime==1.15.1)

    \b
    Did an export, a quantisation or a conversion change a model? The original says what is right:
      driftline check deployed.onnx --reference original.onnx --targets onnxruntime

    \b
    Where in the model does a result go wrong? Layer by layer, in units of legal rounding:
      driftline check model.onnx --layers --targets onnxruntime
      driftline check deployed.onnx --reference original.onnx --layers --out layers.html

    \b
    Who agrees with whom? Every target against every other, in bits and in numbers:
      driftline check net.py:make --pairwise --out pairwise.html
      driftline check net.py:make --targets inductor,tvm --across isa

    \b
    Inputs fit the model: integers are valid indices, masks are masks. Open sizes go by name:
      driftline check bert.onnx --dim batch=2,seq=128
      driftline check bert.onnx --dim seq=16/33 --inputs random --samples 4
      driftline check net.py:make --shape x=2x8/3x8

    Failures are confirmed in a fresh process and kept in the store; each prints the command that replays it. A target
    that agrees only if it may compute less precisely (accumulate in float16, say) is reduced-precision, not a failure;
    --accept says that it is good enough, and driftline.toml remembers it (docs/how-to/accept-reduced-precision.md).

    Exit codes: 0 clean, 1 a row has a verdict of --fail-on, 5 nothing was compared; 2, 3 and 4 as everywhere.
    """
    from driftline.campaign.across import IsaFamily, check_way, require_families
    from driftline.campaign.explanations import ExplainedBugs
    from driftline.campaign.layering import check_taps
    from driftline.campaign.pairing import with_matrices
    from driftline.campaign.session import (
        check_program,
        check_strategy,
        choose_targets,
        fitting_targets,
        require_target,
    )
    from driftline.checking.accept import parse_accept, unused_accept
    from driftline.checking.checker import Checker, Skipped
    from driftline.checking.deployed import deploy
    from driftline.checking.open import open_program
    from driftline.cli import report_internal_error
    from driftline.core.case import CheckOptions
    from driftline.core.plugins import load_plugins
    from driftline.core.target import parse_targets
    from driftline.core.verdict import Judgement
    from driftline.execute.pool import Pool
    from driftline.inputs.sizes import Sizes
    from driftline.oracle.choice import parse_oracle
    from driftline.report.annotated import is_accepted
    from driftline.report.baseline import compare_check, read_baseline
    from driftline.report.progress import CheckProgress
    from driftline.report.results import check_json
    from driftline.store import Store

    load_plugins(plugins)
    settings = settings_of_run("accept", "fail_on", "targets", "timeout")
    accepted = parse_accept(accept) if accept else parse_accept(settings.accept, settings.said_by("accept"))
    counted = parse_fail_on(
        fail_on or settings.fail_on or "fail", "--fail-on" if fail_on else settings.said_by("fail_on")
    )
    before = read_baseline(baseline) if baseline else None
    library = library_of(folders)
    usual = targets is None and settings.targets is not None
    targets = settings.targets if usual else targets
    with naming_the_file(settings.said_by("targets") if usual else ""):
        wanted = parse_targets(targets) if targets is not None else None
        for target in wanted or ():
            require_target(target)
    check_strategy(inputs)
    sizes = Sizes.parse(dims, shapes)
    parse_oracle(oracle)
    if lift and (reference or layers):
        used = "--reference" if reference else "--layers"
        raise DriftlineError(f"--lift makes another program, in float32; it cannot be used with {used}.")
    check_taps(taps)
    require_layers("taps", layers=layers)
    if out is not None:
        require_page(out, wanted=layers or pairwise or across is not None)
    if across is not None:
        check_way(across)
    options = CheckOptions(
        grad=grad,
        seed=seed,
        timeout=timeout or settings.timeout or 300.0,
        memory_limit=memory << 30,
        signed_zero=signed_zero,
        oracle=oracle,
        plugins=tuple(str(Path(p).resolve()) for p in plugins),
        accept=accepted,
        stress=stress,
    )
    with Store.create(store) as kept, Pool() as pool:
        with CheckProgress(f"Checking {program}") as progress:
            opened = open_program(program, pool, options, sizes)
            if reference:
                opened = deploy(opened, open_program(reference, pool, options, sizes))
            if before:
                before.require_program(opened.runs)
            unfit: list[Skipped] = []
            if usual and wanted:
                wanted, unfit = fitting_targets(opened.runs, wanted)
            chosen, missing = choose_targets(opened.runs, wanted)
            families: list[IsaFamily] = []
            left_out = ""
            if across is not None:
                families, left_out = require_families(chosen)
                unfit += missing
                chosen = [target for family in families for target in family.members]
            result = check_program(
                Checker(pool, jobs),
                kept,
                opened,
                targets=list(dict.fromkeys(chosen)) if families else wanted,
                inputs=inputs,
                samples=samples,
                sizes=sizes,
                options=options,
                lifted=False if layers or reference else lift,
                keep_reduced=Judgement.REDUCED in counted,
                library=library,
                listener=progress,
            )
        result = replace(
            result,
            outcome=replace(result.outcome, skipped=(*result.outcome.skipped, *unfit)),
            notes=(
                *result.notes,
                *([left_out] if left_out else []),
                *(unused_accept(accepted, chosen) if accept else ()),
            ),
        )
        views = look_layers(result, kept, pool, taps) if layers else []
        result = with_matrices(kept, result, all_targets=pairwise, families=families)
        whole = [result.pairwise.to_json()] if result.pairwise else []
        by_isa = [matrix.to_json() for matrix in result.across]
        matrices = [*whole, *by_isa]
        explained = (
            explain([bug.id for bug in result.bugs.values()], kept, pool, library) if diagnose else ExplainedBugs()
        )
    compared = compare_check(before, result, counted) if before else None
    if as_json:
        more: dict[str, object] = {"layers": views} if layers else {}
        more |= {"pairwise": matrices[0]} if pairwise else {}
        more |= {"across": by_isa} if across is not None else {}
        print_json({**check_json(result, compared, library), **more, **explained.to_json()})
    else:
        from driftline.report.diagnosis import show_diagnoses
        from driftline.report.pairwise_table import show_pairwise
        from driftline.report.screen import console
        from driftline.report.terminal import show_check

        show_check(result, explained=diagnose, baseline=compared, library=library)
        show_views(views)
        for body in matrices:
            show_pairwise(console(), body)
        show_diagnoses(explained.bodies)
    if out is not None:
        write_page(out, result.outcome.case.runs.name, views, matrices)
    if result.internal_error:
        report_internal_error(result.internal_error)
    accepted_here = [target for target, bug in result.bugs.items() if is_accepted(bug, library)]
    excused = (*(compared.known if compared else ()), *accepted_here)
    code = exit_code(result, counted, excused, wanted or ())
    open_ones = [one for one in result.disagreements if not one.by_rounding]
    if disagreements == "fail" and open_ones and code in (0, 5):
        code = 1
    for skipped in result.outcome.skipped:
        if code == 4 and skipped.target in (wanted or ()):
            note(f"driftline: {skipped.target} {skipped.reason}")
    return code
