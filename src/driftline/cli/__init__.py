"""The command line: one file per command, each a parse, one library call and one renderer.

Commands are imported when they are used, so `--help` is quick and a broken one does not disturb the others.
"""

from __future__ import annotations

import importlib
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from driftline import __version__
from driftline.cli.clock import process_age, start
from driftline.cli.early_end import show_nothing_of
from driftline.cli.output import OutputLost, output_that_may_end
from driftline.cli.terminal_options import with_terminal_options
from driftline.core.config import cache_home
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.full_disk import disk_full, no_room
from driftline.core.notices import listen
from driftline.core.plugins import one_command
from driftline.core.strangers import admitted, one_run, useless_answer
from driftline.core.streams import plain_streams
from driftline.core.terminal import as_usual
from driftline.core.text import did_you_mean, plural

# command -> (module, one line of help). The help is repeated here so that listing commands imports none of them.
_COMMANDS = {
    "tour": "A guided demo: a real miscompile found, judged, shrunk, blamed, bisected and written up.",
    "doctor": "Show every compiler: available or not, version, and how to install it.",
    "check": "Run a program on many compilers and say which of them is wrong.",
    "inputs": "Find inputs on which a program becomes NaN, overflows or loses its digits, or prove there are none.",
    "compose": "Write small models of given operators, as Python, TorchScript and ONNX.",
    "instabilities": "Run models on many runtimes and inputs, and count NaN, Inf, overflow and disagreement.",
    "hunt": "Make programs, run them on all compilers, and keep every bug once.",
    "cluster": "Prepare the nodes of a Ray cluster for hunts over many machines.",
    "patterns": "Audit the compilers' own rewrite rules: list, show, describe, audit, diff.",
    "passes": "Try a compiler's passes one at a time on small programs: list, test.",
    "schedules": "Hunt for bugs in TVM's schedule primitives: list, hunt, replay, export.",
    "inductor": "The TorchInductor lab: what torch.compile makes of a model, kernel by kernel.",
    "bench": "Measure real models on several compilers, and compare two such runs.",
    "perf": "Find compilers that are right but slow: against eager, their own plain mode, a release or a twin.",
    "models": "List real architectures with seeded weights, or write one to a file.",
    "bugs": "Browse what was found.",
    "causes": "List, show and check the causes that explain bugs.",
    "replay": "Run a stored bug again: still fails, fixed, or differs.",
    "diagnose": "Explain a bug: localise, reduce and ablate it within a budget.",
    "localize": "Find the operators of a failing program that fail by themselves.",
    "ablate": "Find the options, passes and rewrite rules without which a bug is gone.",
    "reduce": "Make a failing program as small as it gets.",
    "bisect": "Find the releases of a compiler that show a bug: first bad, first good again.",
    "export": "Write a bug as a script, an issue text, a regression test, a model or JSON.",
    "report": "Write what was found as a page, a table or a file for other tools; compare two stores.",
    "serve": "Show the store in a browser: browse bugs; start, watch and stop hunts and checks.",
    "completion": "Print the script that lets bash, zsh or fish complete commands, targets and bugs.",
    "coverage": "Show what of each compiler was exercised, what was not, and which command would cover it.",
    "watch": "Replay every known bug on the newest release of a compiler, hunt there, say what changed.",
    "store": "Merge the stores of several machines; push and pull them.",
    "env": "Add, list and remove other versions of a compiler.",
}


def command_names() -> list[str]:
    return list(_COMMANDS)


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return command_names()

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command = getattr(importlib.import_module(f"driftline.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return with_terminal_options(command)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"There is no command {args[0]!r}.{did_you_mean(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="driftline")
def cli() -> None:
    """Driftline finds, explains, shrinks and reports bugs in deep-learning compilers.

    \b
    Start here:
      driftline tour                                how does it work? a real bug, step by step
      driftline hunt --budget 2m                    what is wrong with the compilers that are here?
      driftline report --out report.html            show me what was found
      driftline doctor                              which compilers are here?
      driftline check model.onnx                    is any of them wrong on my model?
      driftline check model.py:make --targets inductor,onnxruntime:opt=off
      driftline bugs list                           what was found so far?

    \b
    Exit codes: 0 clean, 1 findings, 2 usage or configuration, 3 a bug in Driftline,
    4 a required backend is unavailable, 5 nothing was compared, 130 interrupted (everything so far is saved).
    """


with_terminal_options(cli)


def main() -> None:
    signal.signal(signal.SIGTERM, _interrupt)
    with output_that_may_end():
        code = run(sys.argv[1:], began=process_age())
    sys.exit(code)


def _interrupt(*_: object) -> None:
    """End as Ctrl-C does: with what was found, and how to go on. A second one ends the process at once."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt


def run(arguments: list[str], *, began: float = 0.0) -> int:
    """Run a command line and return its exit code; every kind of trouble gets its own. `began`: so many seconds ago."""
    start(began)
    listen(_say)
    with plain_streams(), one_command(), one_run(), as_usual():
        return _run(arguments)


def _say(line: str) -> None:
    click.echo(f"driftline: {line}", err=True)


def _run(arguments: list[str]) -> int:
    try:
        result = cli.main(arguments, prog_name="driftline", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except DriftlineError as error:
        click.echo(f"driftline: {error}", err=True)
        return error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        show_nothing_of(arguments)  # a hunt that had begun has shown what it has
        click.echo("driftline: interrupted; everything found so far is in the store.", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OutputLost as error:
        click.echo(f"driftline: the output cannot be written: {error}. What was found is in the store.", err=True)
        return DriftlineError.exit_code
    except Exception as error:
        if no_room(error):
            click.echo(f"driftline: {disk_full(cache_home())}", err=True)
            return DriftlineError.exit_code
        if admitted():
            told = useless_answer(error)
            click.echo(f"driftline: {told}", err=True)
            return told.exit_code
        report_internal_error(str(error) if isinstance(error, InternalError) else traceback.format_exc())
        return InternalError.exit_code


def report_own_faults(faults: Sequence[str]) -> None:
    """Print how many programs of a long run met a bug in Driftline, and the first bug in full. The exit code of the run
    says what was found about compilers."""
    if faults:
        programs = plural(len(faults), "program")
        _say(f"{programs} could not be judged because of a bug in Driftline; all else was. Please report the first:")
        click.echo(faults[0], err=True)


def report_internal_error(details: str) -> None:
    click.echo("driftline: this is a bug in Driftline, not in a compiler. Please report it with these lines:", err=True)
    click.echo(details, err=True)
