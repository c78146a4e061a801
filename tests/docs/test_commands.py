"""Every command in the documentation and in `--help` is one that Driftline has, with options that it takes."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import click
import pytest
from documents import ROOT, Command, commands, inline_code, pages, words_of

from driftline.backends import BACKENDS
from driftline.backends.presets import is_preset
from driftline.campaign.check.session import require_target
from driftline.cli import cli
from driftline.cli.branching import BranchingCommand
from driftline.core.errors import BackendUnavailable
from driftline.core.target import parse_targets

FILE = re.compile(r"[\w./-]+\.(onnx|pt2|npz|json|py|toml)")


def leaf(words: tuple[str, ...]) -> tuple[click.Command, click.Context, list[str]]:
    """The command that words name, its context's parent, and its arguments."""
    command: click.Command = cli
    context = click.Context(cli, info_name="driftline")
    rest = list(words[1:])
    while isinstance(command, click.Group) and rest and not _is_whole(command, rest):
        found = command.get_command(context, rest[0])
        assert found, f"there is no command {rest[0]!r}"
        command, rest = found, rest[1:]
        context = click.Context(command, info_name=found.name, parent=context)
    if isinstance(command, BranchingCommand) and rest and rest[0] in command.branches:
        command, rest = command.branches[rest[0]], rest[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    return command, context, rest


def _is_whole(command: click.Group, rest: list[str]) -> bool:
    """A group that is a command by itself, given options of its own."""
    return command.invoke_without_command and rest[0].startswith("-")


def options_of(command: click.Command) -> set[str]:
    context = click.Context(command)
    return {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}


def all_commands(command: click.Command = cli) -> list[click.Command]:
    if isinstance(command, BranchingCommand):
        return [command, *command.branches.values()]
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    found = (command.get_command(context, name) for name in command.list_commands(context))
    return [command, *(leaf for each in found if each for leaf in all_commands(each))]


def in_help() -> list[Command]:
    """The examples that help texts show; words after two spaces explain them."""
    found = []
    for command in all_commands():
        for line in (command.help or "").splitlines():
            if line.strip().startswith("driftline "):
                typed = re.split(r"\s{2,}", line.strip())[0]
                found.append(Command(f"help of {command.name}:", words_of(typed)))
    return found


@pytest.mark.parametrize("command", [*commands("driftline"), *in_help()], ids=str)
def test_a_command_parses(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for word in command.words:  # files that must be there when a command is parsed
        if FILE.fullmatch(word):
            (tmp_path / word).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / word).touch()
    found, parent, arguments = leaf(command.words)
    with found.make_context(found.name, arguments, parent=parent.parent) as context:
        given = context.params
    alone = not isinstance(found, click.Group) or found.invoke_without_command
    assert alone, "a command of this group is missing"
    if given.get("plugins"):
        return  # its targets are the plugin's
    for target in parse_targets(given.get("targets") or given.get("target") or "eager"):
        assert is_preset(target) or target.backend in BACKENDS, f"there is no target {target}"


def test_options_that_pages_mention_exist() -> None:
    every = set().union(*map(options_of, all_commands()))
    sources = [*ROOT.glob("benchmarks/*.py"), ROOT / "src/driftline/testing/pytest_plugin.py"]
    scripts = {option for script in sources for option in re.findall(r'"(--[a-z-]+)"', script.read_text())}
    unknown = []
    for page in pages():
        for code in inline_code(page):
            options = {word.partition("=")[0] for word in re.findall(r"(?<!\S)--[a-z][\w=-]*", code)}
            if code.startswith("driftline "):
                found, _, _ = leaf(tuple(word for word in code.split() if re.fullmatch(r"[a-z]+", word))[:3])
                known = options_of(found) if not isinstance(found, click.Group) else every
            elif code.startswith(("--", "check", "hunt", "report")):
                known = every | scripts
            else:
                continue
            unknown += [f"{page.relative_to(ROOT)}: `{code}` has no {option}" for option in options - known]
    assert not unknown, "\n".join(unknown)


def test_scripts_that_pages_run_exist_and_have_their_options() -> None:
    found = commands("python")
    assert found
    for command in found:
        script = ROOT / command.words[1]
        assert script.is_file(), f"{command}: there is no such script"
        for option in (word for word in command.words if word.startswith("--")):
            assert f'"{option}"' in script.read_text(), f"{command}: the script has no {option}"


def test_make_has_the_targets_that_pages_name() -> None:
    has = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {command.words[1] for command in commands("make")}
    for page in pages():
        named |= {code.split()[1] for code in inline_code(page) if re.fullmatch(r"make [a-z-]+", code)}
    assert {"demo", "test"} <= named <= has


def test_marks_of_pytest_name_targets_with_values_that_they_take() -> None:
    page = ROOT / "docs" / "how-to" / "test-with-pytest.md"
    marks = re.findall(r"targets=\[([^]]*)\]|known_failing_targets\(([^)]*), reason", page.read_text())
    named = {name for mark in marks for name in re.findall(r'"([^"]+)"', "".join(mark))}
    assert "tvm:mcpu=generic" in named and "inductor" in named
    for target in (target for name in named for target in parse_targets(name)):
        with contextlib.suppress(BackendUnavailable):  # that it is not installed here is no mistake of the page
            require_target(target)
