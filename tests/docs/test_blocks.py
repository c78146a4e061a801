"""What pages show is run: files that they name are written, then their commands and code run in that order.

`shown.py` says for each command which test runs it, or why none does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_with_less_time
from documents import ROOT, blocks, commands, pages, words_of
from running import run_in, run_typed, typed_on, write_files
from shown import CODE, COMMANDS, LESS_TIME, READER, NotRun
from test_session import plain

sys.path.insert(0, str(ROOT / "tests" / "report"))

from filled_store import add_bug, fill

from driftline.cli import run
from driftline.core.verdict import Kind
from driftline.store import Store

_REPORT = "driftline report --out report.html"  # what test_a_search runs after each search


def test_every_block_of_python_is_run_by_a_test_or_says_why_not() -> None:
    """But those of docs/found, which are run when benchmarks/found.py writes them."""
    told = {page: set(phrases) for page, phrases in CODE.items()}
    missing = []
    for block in (block for page in pages() if page.parent.name != "found" for block in blocks(page)):
        if block.language == "python":
            page = block.page.relative_to(ROOT).as_posix()
            fitting = {phrase for phrase in CODE.get(page, ()) if phrase in block.text}
            told.get(page, set()).difference_update(fitting)
            missing += [] if fitting else [str(block)]
    assert not missing, missing
    assert not any(told.values()), f"no page has these any more: {told}"


def test_every_command_is_run_by_a_test_or_says_why_not() -> None:
    """All of them are parsed by test_commands.py, with their options and targets."""
    told = {page: set(beginnings) for page, beginnings in COMMANDS.items()}
    missing = []
    for command in commands("driftline"):
        page, typed = command.where.partition(":")[0], " ".join(command.words)
        fitting = [beginning for beginning in COMMANDS.get(page, ()) if typed.startswith(beginning)]
        if fitting:
            told[page].discard(max(fitting, key=len))
        else:
            missing.append(str(command))
    assert not missing, "\n".join(missing)
    assert not any(told.values()), f"no page has these any more: {told}"


def test_the_tests_that_run_them_exist() -> None:
    for how in (how for told in (*CODE.values(), *COMMANDS.values()) for how in told.values()):
        if isinstance(how, NotRun):
            assert how.reason
        else:
            path, _, name = how.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text(), how


def test_what_is_run_by_page_and_beginning_is_run() -> None:
    """Two tests take commands by their beginnings: a command that none of these fits is not run."""
    given = {
        READER: [tuple(each) for each in _given(test_models_of_the_reader)],
        LESS_TIME: [
            (page, run_there)
            for page, beginning in _given(test_with_less_time.test_a_search)
            for run_there in (beginning, _REPORT)
        ],
    }
    missing = []
    for command in commands("driftline"):
        page, typed = command.where.partition(":")[0], " ".join(command.words)
        told = COMMANDS.get(page, {})
        how = told.get(max((one for one in told if typed.startswith(one)), key=len, default=""))
        fits = [page == one and typed.startswith(beginning) for one, beginning in given.get(str(how), ())]
        if str(how) in given and (not any(fits) or "device=cuda" in typed):
            missing.append(str(command))
    assert not missing, "\n".join(missing)


def _given(test: Callable[..., None]) -> list[Any]:
    """What a test is parametrised with."""
    (values,) = (mark.args[1] for mark in test.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    return list(values)


def test_causes(tmp_path: Path) -> None:
    page = "docs/how-to/causes.md"
    assert "openvino/int64-in-32-bits" in run_typed(page, "driftline causes list", tmp_path)
    assert "computed in int32" in run_typed(page, "driftline causes show", tmp_path)


def test_files_of_other_tools(tmp_path: Path) -> None:
    page = "docs/how-to/find-unstable-inputs.md"
    parsed, own = (block.text for block in blocks(ROOT / page) if block.language == "csv")
    (tmp_path / "tests.csv").write_text(parsed)
    (tmp_path / "own.csv").write_text(own)
    run_typed(page, "driftline inputs convert tests.csv", tmp_path)
    run_typed(page, "driftline inputs convert bad.npz", tmp_path)
    assert any(path.read_bytes().startswith(b"KTEST") for path in tmp_path.glob("*.ktest"))
    assert run_in(tmp_path, "-m", "driftline", "inputs", "convert", "own.csv", "own.npz").returncode == 0
    assert run_in(tmp_path, "-m", "driftline", "inputs", "convert", "own.npz", "again.csv").returncode == 0
    assert (tmp_path / "again.csv").read_text() == own


def fill_store(path: Path, op: str) -> None:
    with Store.create(path) as store:
        add_bug(store, Kind.WRONG_VALUE, compiler="onnxruntime", op=op)


def test_stores_of_several_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "docs/how-to/scale.md"
    monkeypatch.chdir(tmp_path)
    for number, op in enumerate(("exp", "tanh", "relu"), 1):
        fill_store(tmp_path / f"shard-{number}", op)
    wanted = [words for part in ("merge", "push", "pull") for words in typed_on(page, f"driftline store {part}")]
    for words in [*wanted, *typed_on(page, "driftline report --store all")]:
        assert run([word.replace("s3://bucket", str(tmp_path / "bucket")) for word in words[1:]]) == 0, words
    with Store.open(tmp_path / "all") as store:
        assert len(store.bugs()) == 3, "two by merging, one by pushing and pulling"
    assert (tmp_path / "report.html").is_file()


def test_coverage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRIFTLINE_STORE", raising=False)
    fill(tmp_path / ".driftline")
    for words in typed_on("docs/how-to/measure-coverage.md", "driftline coverage"):
        assert run(list(words[1:])) in ((0,) if "--fail-under" not in words else (1,)), words
    assert "operator" in capsys.readouterr().out and (tmp_path / "coverage.html").is_file()


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("page", "beginning"),
    [
        ("docs/how-to/check-a-model.md", "driftline check"),
        ("docs/how-to/compare-targets.md", "driftline check"),
        ("docs/how-to/look-inside-a-model.md", "driftline check model.onnx"),
        ("docs/how-to/look-inside-a-model.md", "driftline check net.py"),
        ("docs/how-to/look-inside-a-model.md", "driftline check deployed.onnx"),
        ("docs/how-to/test-passes.md", "driftline passes list"),
        ("docs/how-to/test-passes.md", "driftline check"),
        ("docs/how-to/audit-rules.md", "driftline patterns list"),
        ("docs/how-to/hunt-schedules.md", "driftline schedules list"),
        ("docs/how-to/big-models.md", "driftline check"),
        ("docs/targets.md", "driftline check"),
    ],
)
def test_models_of_the_reader(page: str, beginning: str, own_models: Path) -> None:
    """Sound models pass, however the page has them checked."""
    run_typed(page, beginning, own_models)
    for name in ("pairwise.html", "layers.html"):
        if any(name in words for words in typed_on(page, beginning)):
            assert (own_models / name).is_file()


@pytest.mark.slow
def test_unstable_inputs(tmp_path: Path) -> None:
    page = "docs/how-to/find-unstable-inputs.md"
    write_files(page, tmp_path)
    run_typed(page, "driftline inputs net.py:program", tmp_path, codes=(0, 1))
    assert (tmp_path / "bad.npz").is_file()
    run_typed(page, "driftline check net.py:program", tmp_path, codes=(0, 1, 5))


@pytest.mark.slow
def test_an_accelerator(tmp_path: Path) -> None:
    page = "docs/how-to/add-an-accelerator.md"
    write_files(page, tmp_path)
    done = run_in(tmp_path, "model.py")
    assert done.returncode == 0 and done.stdout.startswith("tensor("), done.stderr
    said = run_typed(page, "driftline check", tmp_path, codes=(0, 5))
    assert "pass" in said


@pytest.mark.slow
def test_hardware_profiles(tmp_path: Path) -> None:
    for block in blocks(ROOT / "docs/how-to/hardware-profiles.md"):
        if block.language == "python":
            (tmp_path / "block.py").write_text(block.text)
            done = run_in(tmp_path, "block.py")
            assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_lab(tmp_path: Path) -> None:
    page = "docs/how-to/inductor-lab.md"
    write_files(page, tmp_path)
    for command in ("capture", "guards", "diff", "list", "analyze", "report", "clean"):
        run_typed(page, f"driftline inductor {command}", tmp_path)


@pytest.mark.slow
def test_the_lab_from_python(tmp_path: Path) -> None:
    text = "\n".join(
        block.text for block in blocks(ROOT / "docs/how-to/inductor-lab.md")
        if block.language == "python" and "\ndef " in block.text and "# net.py" not in block.text
    )  # fmt: skip
    (tmp_path / "block.py").write_text(f"{text}\n{LAB_CALLS}")
    done = run_in(tmp_path, "block.py")
    assert done.returncode == 0, done.stderr
    assert "True" in done.stdout.splitlines() and list(tmp_path.glob("inductor-lab/**/*.html"))


LAB_CALLS = """
model = torch.nn.Linear(4, 3)
step(model, torch.ones(2, 4))
inspect(model, [(torch.ones(2, 4),), (torch.ones(3, 4),)])
print(compare(model, (torch.ones(2, 4),))[0])
"""


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_tutorial(tmp_path: Path) -> None:
    """Every line that it shows is printed, in this order; `...` stands for some that it leaves out."""
    page = "docs/tutorial.md"
    write_files(page, tmp_path)
    sessions = [block for block in blocks(ROOT / page) if block.text.startswith("$ driftline")]
    assert len(sessions) == 5
    for session in sessions:
        command, _, shown = session.text.removeprefix("$ ").partition("\n")
        patience = ["--budget", "20m"] if " diagnose " in command else []  # whatever the machine does beside it
        done = run_in(tmp_path, "-m", "driftline", *words_of(command)[1:], *patience)
        assert done.returncode in (0, 1), done.stderr[-3000:]
        printed = iter(plain(done.stdout))
        for line in plain(shown.replace("...\n", "\n")):
            assert line in printed, f"{command}: {line!r} is not printed, or not there: {done.stdout}"
    issue = (tmp_path / "issue.md").read_text()
    assert "torch.compile" in issue and "nan" in issue
