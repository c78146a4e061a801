"""`driftline export`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from driftline.cli.cause_options import causes_option, library_of
from driftline.cli.common import note, plugin_option, store_option, trust_option
from driftline.cli.completing import complete_bugs
from driftline.cli.filled import filled
from driftline.core.errors import DriftlineError
from driftline.core.quoting import comment

if TYPE_CHECKING:
    from driftline.campaign.explain.failing import Failing
    from driftline.execute.pool import Pool
    from driftline.report.export.script import Exported
    from driftline.report.export.subject import Subject
    from driftline.store import Store

FORMS = ("script", "issue", "pytest", "onnx", "json")
_EXAMPLES = {"script": "bug.py", "issue": "issue.md", "pytest": "test_bug.py", "json": "bug.json"}


@dataclass(frozen=True)
class _ExportOptions:
    """The options of `driftline export`."""

    form: str
    out: Path | None
    original: bool
    store: Path
    plugins: tuple[str, ...]
    folders: tuple[Path, ...]


@click.command()
@click.argument("subject", metavar="BUG|CASE", shell_complete=complete_bugs)
@click.option("--as", "form", type=click.Choice(FORMS), default="script", show_default=True, help="What to write.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write; default: stdout. For onnx a folder; default: BUG-onnx.",
)
@click.option("--original", is_flag=True, help="The case as it was found, even when there is a reduced one.")
@store_option
@plugin_option
@trust_option
@causes_option
@filled(_ExportOptions)
def export(subject: str, asked: _ExportOptions) -> int:
    """Write a bug down for those who can fix it.

    BUG is a name from `driftline bugs list`, CASE the id of one of its cases. The reduced case is taken when there is
    one.

    \b
      script   runs by itself, with exact versions; exits with 1 when the bug shows, with 0 when not
      issue    the text of a report, in the form that the project asks for; open boxes for what is not met
      pytest   a regression test in one file
      onnx     a folder with the model, its inputs and what should come out
      json     all that is known

    Of a bug that is about cost there is a script, which prints both times. Of a script that calls torch.compile itself
    there is the script, which compares both runs where that shows the bug; no onnx.

    A script and a test are run in a clean process before they are called valid. The plugins that a bug needs are code
    and are not loaded by themselves: give them again with --plugin. Exit code 0: valid; 1: not valid, and the reason is
    said.
    """
    from driftline.campaign.explain.exporting import subject_of
    from driftline.campaign.explain.failing import about_cost, find_failing
    from driftline.campaign.explain.scripts import is_script
    from driftline.checking.checker import Checker
    from driftline.core.case import CheckOptions
    from driftline.core.plugins import load_plugins
    from driftline.execute.pool import Pool
    from driftline.store import Store

    form, out = asked.form, asked.out
    _require_out(form, out)
    library = library_of(asked.folders)
    load_plugins(asked.plugins)
    options = CheckOptions(plugins=tuple(str(Path(p).resolve()) for p in asked.plugins))
    with Store.open(asked.store) as kept, Pool() as pool:
        checker = Checker(pool)
        if about_cost(kept, subject):
            return _write_timing(kept, subject, form, out)
        failing = find_failing(subject, kept, checker, options=options, scripts=True)
        if is_script(failing):
            return _write_script_bug(kept, failing, pool, form, out)
        gathered = subject_of(kept, checker, failing, original=asked.original, library=library)
    if form == "onnx":
        return _write_model(gathered, out)
    text, made = _written(gathered, form)
    _write_text(text, out)
    note(_verdict(gathered, form, made, out, asked.store))
    return 0 if made.valid else 1


def _require_out(form: str, out: Path | None) -> None:
    """Raise an error if a file or folder cannot be written, before anything is run."""
    from driftline.core.output_place import require_place
    from driftline.report.export.model import require_folder

    if out and form == "onnx":
        require_folder(out)
    elif out:
        require_place(out, example=_EXAMPLES[form])


def _write_text(text: str, out: Path | None) -> None:
    from driftline.core.streams import write_exactly
    from driftline.report.formats import write

    if out:
        write(out, text)
    else:
        write_exactly(text)


def _written(subject: Subject, form: str) -> tuple[str, Exported]:
    from driftline.core.text import to_json
    from driftline.report.export.issue import issue_text
    from driftline.report.export.script import export_script, export_test
    from driftline.report.export.subject import facts
    from driftline.report.results import SCHEMA

    made = export_test(subject) if form == "pytest" else export_script(subject)
    if form == "issue":
        return issue_text(made.subject or subject, made), made
    if form == "json":
        return to_json({"schema": SCHEMA, **facts(subject, made.to_json())}, indent=1) + "\n", made
    if made.valid:
        return made.text, made
    return f"# NOT VALID: {comment(made.reason)}.\n{made.text}", made


def _verdict(subject: Subject, form: str, made: Exported, out: Path | None, store: Path) -> str:
    from driftline.report.results import command

    what = {"pytest": "test"}.get(form, "script")
    place = f" Written to {out}." if out else ""
    place += f" Report it at {subject.tracker.url}." if form == "issue" and subject.tracker.url else ""
    reduced = "" if subject.reduction else f" Not reduced: {command('reduce', subject.bug.id, store)} makes it smaller."
    if made.valid:
        return f"valid: {made.reason}; {made.lines} lines.{reduced if made.lines > 25 else ''}{place}"
    return f"not valid, the {what} of {subject.bug.id}: {made.reason}.{reduced}{place}"


def _write_script_bug(store: Store, failing: Failing, pool: Pool, form: str, out: Path | None) -> int:
    """The bug of a script that calls the compiler itself."""
    from driftline.campaign.explain.scripts import export_failing
    from driftline.core.text import to_json
    from driftline.report.results import SCHEMA, bug_json

    if form == "onnx":
        raise DriftlineError(f"{failing.case.program.name} is a script, and no model; write it with --as script.")
    made = export_failing(failing, pool, form)
    text = made.text
    if form == "json":
        told = {"schema": SCHEMA, "bug": bug_json(failing.bug, store.path), "script": made.to_json()}
        text = to_json(told, indent=1) + "\n"
    elif form != "issue" and not made.valid:
        text = f"# NOT VALID: {comment(made.reason)}.\n{text}"
    _write_text(text, out)
    place = f" Written to {out}." if out else ""
    note(f"{'valid' if made.valid else 'not valid'}: {made.reason}; {made.lines} lines.{place}")
    return 0 if made.valid else 1


def _write_timing(store: Store, name: str, form: str, out: Path | None) -> int:
    """The script of a finding of `driftline perf`, which prints both times."""
    from driftline.core.streams import write_exactly
    from driftline.perf.recording import timing_script
    from driftline.report.formats import write

    if form != "script":
        raise DriftlineError(f"{name} is about cost; write it with --as script.")
    made = timing_script(store, store.bug(name))
    if made.text:
        text = made.text if made.valid else f"# NOT VALID: {comment(made.reason)}.\n{made.text}"
        if out:
            write(out, text)
        else:
            write_exactly(text)
    told = "valid" if made.valid else "not valid"
    note(f"{told}: {made.reason}." + (f" Written to {out}." if out and made.text else ""))
    return 0 if made.valid else 1


def _write_model(subject: Subject, out: Path | None) -> int:
    from driftline.report.export.model import write_model

    folder = out or Path(f"{subject.bug.id}-onnx")
    for path in write_model(subject, folder):
        click.echo(str(path))
    return 0
