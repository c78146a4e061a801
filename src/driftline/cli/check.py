"""`driftline check`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from driftline.cli.script import ScriptOrder, check_script, is_script, refuse_other_options
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
from driftline.core.verdict import Judgement

if TYPE_CHECKING:
    from driftline.campaign.check.settings import CheckSettings
    from driftline.campaign.explain.explanations import ExplainedBugs
    from driftline.causes import Library
    from driftline.checking.result import CheckResult
    from driftline.report.baseline import Baseline, Compared
    from driftline.workbench import Workbench

# Options that are settings of the check by the same name.
_SAME = ("inputs", "samples", "grad", "calls", "seed", "memory", "signed_zero", "oracle", "stress", "pairwise")


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
    default="",
    help="Run each compiler on every instruction set of this machine that it can be told to use, and show where bits"
    " differ.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="For --layers, --pairwise and --across: also write the view as a page.",
)
@click.option(
    "--grad/--no-grad",
    default=None,
    help="Compare gradients too (torch targets).  [default: after the outputs, where an example input requires a"
    " gradient, or a module in training mode has a parameter that does]",
)
@click.option(
    "--calls",
    type=click.IntRange(1, 3),
    default=3,
    show_default=True,
    help="Calls of each compiled program that are compared: 1, the first; 2, also with other values; 3, also with"
    " another batch size, where the program takes one and the compiler compiles again for it.",
)
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
def check(**given: Any) -> int:
    """Run PROGRAM on many compilers and say which of them is wrong.

    PROGRAM is model.onnx, model.pt2, model.pt (TorchScript), model:NAME (see `driftline models list`), or file.py:name,
    where `name` is a function without arguments that returns (callable, inputs): an nn.Module or torch function, a
    Keras model or tf.function, a JAX function or an ONNX model, with a tuple or dict of example inputs.

    \b
    A Python file without a name is a script that calls torch.compile itself, as bug reports do: it is executed with and
    without the compiler, and compared call by call (docs/how-to/check-a-script.md).
      driftline check repro.py
      driftline check repro.py --targets aot_eager,inductor

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

    \b
    A target that agrees is called again, and its gradient is compared where the program asks for one. One call alone:
      driftline check net.py:make --calls 1 --no-grad

    Failures are confirmed in a fresh process and kept in the store; each prints the command that replays it. A target
    that agrees only if it may compute less precisely (accumulate in float16, say) is reduced-precision, not a failure;
    --accept says that it is good enough, and driftline.toml remembers it (docs/how-to/accept-reduced-precision.md).

    Exit codes: 0 clean, 1 a row has a verdict of --fail-on, 5 nothing was compared; 2, 3 and 4 as everywhere.
    """
    from driftline.core.plugins import load_plugins
    from driftline.workbench import Workbench

    load_plugins(given["plugins"])
    if is_script(given["program"]):
        return _check_a_script(given)
    order = _read(given)
    with Workbench(order.store, plugins=given["plugins"], jobs=given["jobs"], library=order.library) as bench:
        done = _carry_out(order, bench)
    _show(order, done)
    return _exit_code(order, done)


def _check_a_script(given: Mapping[str, Any]) -> int:
    """Check a script that calls the compiler itself and makes its own inputs."""
    project = settings_of_run("fail_on", "timeout")
    fail_on = given["fail_on"]
    counted = parse_fail_on(
        fail_on or project.fail_on or "fail", "--fail-on" if fail_on else project.said_by("fail_on")
    )
    refuse_other_options(click.get_current_context())
    seconds = given["timeout"] or project.timeout or 300.0
    same = {name: given[name] for name in ("program", "targets", "memory", "seed", "store", "as_json", "diagnose")}
    return check_script(ScriptOrder(**same, fail_on=counted, timeout=seconds))


@dataclass(frozen=True)
class _CheckOrder:
    """A check as the command line and the project file describe it."""

    program: str
    settings: CheckSettings
    counted: tuple[Judgement, ...]  # verdicts for which the exit code is 1
    library: Library
    before: Baseline | None
    store: Path
    taps: str  # of the view layer by layer; empty: no view
    out: Path | None
    diagnose: bool
    as_json: bool
    open_counts: bool  # disagreements where the specification is silent count for the exit code


@dataclass(frozen=True)
class _Done:
    """The results of a check, as the renderers take them."""

    result: CheckResult
    compared: Compared | None
    views: list[dict[str, Any]]
    explained: ExplainedBugs

    @property
    def matrices(self) -> list[dict[str, Any]]:
        whole = [self.result.pairwise] if self.result.pairwise else []
        return [matrix.to_json() for matrix in (*whole, *self.result.across)]


def _read(given: Mapping[str, Any]) -> _CheckOrder:
    """Validate everything that was asked for, before a store is made or a worker starts."""
    from driftline.campaign.check.layering import check_taps
    from driftline.campaign.check.session import require_target
    from driftline.campaign.check.settings import CheckSettings
    from driftline.checking.accept import parse_accept
    from driftline.core.target import parse_targets
    from driftline.inputs.sizes import Sizes
    from driftline.report.baseline import read_baseline

    project = settings_of_run("accept", "fail_on", "targets", "timeout")
    typed, fail_on, layers = given["accept"], given["fail_on"], given["layers"]
    accepted = parse_accept(typed) if typed else parse_accept(project.accept, project.said_by("accept"))
    counted = parse_fail_on(
        fail_on or project.fail_on or "fail", "--fail-on" if fail_on else project.said_by("fail_on")
    )
    before = read_baseline(given["baseline"]) if given["baseline"] else None
    library = library_of(given["folders"])
    usual = given["targets"] is None and project.targets is not None
    targets = project.targets if usual else given["targets"]
    with naming_the_file(project.said_by("targets") if usual else ""):
        for target in parse_targets(targets) if targets is not None else ():
            require_target(target)
    if given["lift"] and layers:
        raise DriftlineError("--lift makes another program, in float32; it cannot be used with --layers.")
    check_taps(given["taps"])
    require_layers("taps", layers=layers)
    if given["out"] is not None:
        require_page(given["out"], wanted=layers or given["pairwise"] or bool(given["across"]))
    sizes = Sizes.parse(given["dims"], given["shapes"])
    same = {name: given[name] for name in _SAME}
    settings = CheckSettings(
        **same,
        targets=None if targets is None else [targets],
        dims=sizes.dims,
        shapes=sizes.shapes,
        timeout=given["timeout"] or project.timeout or 300.0,
        lift=False if layers else given["lift"],
        accept=accepted,
        across=given["across"],
        reference=given["reference"] or "",
        keep_reduced=Judgement.REDUCED in counted,
        usual=(*(["targets"] if usual else []), *([] if typed else ["accept"])),
    )
    return _CheckOrder(
        given["program"],
        settings,
        counted,
        library,
        before,
        given["store"],
        given["taps"] if layers else "",
        given["out"],
        given["diagnose"],
        given["as_json"],
        given["disagreements"] == "fail",
    )


def _carry_out(order: _CheckOrder, bench: Workbench) -> _Done:
    """Check the program, and look closer where that was asked for."""
    from driftline.campaign.explain.explanations import ExplainedBugs
    from driftline.report.baseline import compare_check
    from driftline.report.progress import CheckProgress

    require = order.before.require_program if order.before else lambda program: None
    with CheckProgress(f"Checking {order.program}") as progress:
        result = bench.check(order.program, asked=order.settings, require=require, listener=progress)
    views = look_layers(bench, result, order.taps) if order.taps else []
    found = [bug.id for bug in result.bugs.values()]
    explained = explain(found, bench) if order.diagnose else ExplainedBugs()
    compared = compare_check(order.before, result, order.counted) if order.before else None
    return _Done(result, compared, views, explained)


def _show(order: _CheckOrder, done: _Done) -> None:
    """Print the result, as a table or as JSON, and write the page of its views."""
    from driftline.cli import report_internal_error

    if order.as_json:
        _print_as_json(order, done)
    else:
        _print_as_table(order, done)
    if order.out is not None:
        write_page(order.out, done.result.outcome.case.runs.name, done.views, done.matrices)
    if done.result.internal_error:
        report_internal_error(done.result.internal_error)


def _print_as_json(order: _CheckOrder, done: _Done) -> None:
    from driftline.report.results import check_json

    result = done.result
    more: dict[str, object] = {"layers": done.views} if order.taps else {}
    more |= {"pairwise": result.pairwise.to_json()} if result.pairwise else {}
    more |= {"across": [matrix.to_json() for matrix in result.across]} if order.settings.across else {}
    print_json({**check_json(result, done.compared, order.library), **more, **done.explained.to_json()})


def _print_as_table(order: _CheckOrder, done: _Done) -> None:
    from driftline.report.diagnosis import show_diagnoses
    from driftline.report.pairwise_table import show_pairwise
    from driftline.report.screen import console
    from driftline.report.terminal import show_check

    show_check(done.result, explained=order.diagnose, baseline=done.compared, library=order.library)
    show_views(done.views)
    for body in done.matrices:
        show_pairwise(console(), body)
    show_diagnoses(done.explained.bodies)


def _exit_code(order: _CheckOrder, done: _Done) -> int:
    """Compute the exit code, and name the targets without which it is 4."""
    from driftline.campaign.check.session import fitting_targets
    from driftline.report.annotated import is_accepted

    result = done.result
    wanted = order.settings.wanted or []
    if "targets" in order.settings.usual:
        wanted, _ = fitting_targets(result.outcome.case.runs, wanted)
    accepted = [target for target, bug in result.bugs.items() if is_accepted(bug, order.library)]
    code = exit_code(result, order.counted, (*(done.compared.known if done.compared else ()), *accepted), wanted)
    if order.open_counts and code in (0, 5) and any(not one.by_rounding for one in result.disagreements):
        code = 1
    for skipped in result.outcome.skipped:
        if code == 4 and skipped.target in wanted:
            note(f"driftline: {skipped.target}: {skipped.reason}")
    return code
