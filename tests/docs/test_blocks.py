"""What pages show is run: files that they name are written, then their commands and code run in that order.

Every page with something to run is either here, or in another test, or says why it is not run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from documents import ROOT, blocks, commands, pages, words_of
from test_session import plain

sys.path.insert(0, str(ROOT / "tests" / "report"))

from filled_store import add_bug, fill

from driftline.cli import run
from driftline.core.verdict import Kind
from driftline.store import Store

IN_OTHER_TESTS = {
    "README.md": "test_session.py",
    "docs/how-to/add-a-backend.md": "test_session.py",
    "docs/how-to/real-models.md": "test_session.py",
    "docs/how-to/read-a-report.md": "test_session.py",
    "docs/how-to/report-a-bug.md": "test_session.py",
    "docs/how-to/test-with-pytest.md": "tests/testing/test_pytest_plugin.py",
    "docs/how-to/use-as-a-library.md": "test_session.py",
    "docs/how-to/hunt.md": "test_session.py has its code; hunts are run by tests/campaign",
    "docs/how-to/accept-reduced-precision.md": "tests/cli/test_what_counts.py",
    "docs/how-to/serve.md": "tests/serve",
    "docs/how-to/diagnose.md": "the tutorial diagnoses; the bug is not in every release",
}
NOT_RUN = {
    "docs/release.md": "it publishes",
    "docs/how-to/bench.md": "measures for minutes; tests/bench measures a small model",
    "docs/how-to/big-models.md": "a model and hours of the reader's own",
    "docs/how-to/bisect.md": "downloads releases",
    "docs/how-to/find-slow-code.md": "minutes, and programs of the reader's own; tests/perf measures small ones",
    "docs/how-to/language-models.md": "needs a language model; tests/llm has a scripted one",
    "docs/how-to/measure-instabilities.md": "many minutes; tests/instabilities runs fewer models",
    "docs/how-to/reduce.md": "bugs of the reader's own",
    "docs/explanation/security.md": "a plugin of the reader's own",
    "examples/README.md": "benchmarks/known_bugs.py, by tests/test_known_bugs.py",
}
HERE = {  # some of their commands at least; those that take long, or other machines, are in the tests of their parts
    "docs/targets.md",
    "docs/tutorial.md",
    "docs/how-to/audit-rules.md",
    "docs/how-to/check-a-model.md",
    "docs/how-to/compare-targets.md",
    "docs/how-to/hunt-schedules.md",
    "docs/how-to/look-inside-a-model.md",
    "docs/how-to/measure-coverage.md",
    "docs/how-to/scale.md",
    "docs/how-to/test-passes.md",
    "docs/how-to/add-an-accelerator.md",
    "docs/how-to/causes.md",
    "docs/how-to/find-unstable-inputs.md",
    "docs/how-to/hardware-profiles.md",
    "docs/how-to/inductor-lab.md",
}


def test_every_page_with_something_to_run_is_accounted_for() -> None:
    typed = {command.where.partition(":")[0] for command in commands("driftline")}
    coded = {
        page.relative_to(ROOT).as_posix()
        for page in pages()
        if page.parent.name != "found" and any(block.language == "python" for block in blocks(page))
    }  # the scripts of docs/found are run when benchmarks/found.py writes them
    groups = [set(IN_OTHER_TESTS), set(NOT_RUN), HERE]
    assert not (groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])
    assert typed | coded <= set().union(*groups)
    assert all((ROOT / page).is_file() for group in groups for page in group)


def write_files(page: str, folder: Path) -> None:
    """The code blocks that begin with the name of a file."""
    for block in blocks(ROOT / page):
        if block.language == "python" and (name := re.match(r"# (\w+\.py)\n", block.text)):
            (folder / name[1]).write_text(block.text)


def run_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "120", "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    return subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)


def typed_on(page: str, beginning: str) -> list[tuple[str, ...]]:
    found = [command.words for command in commands("driftline") if command.where.startswith(f"{page}:")]
    wanted = [words for words in found if " ".join(words).startswith(beginning)]
    assert wanted, f"{page} has no {beginning!r} any more"
    return wanted


def run_typed(page: str, beginning: str, folder: Path, *, codes: tuple[int, ...] = (0,)) -> str:
    said = ""
    for words in typed_on(page, beginning):
        done = run_in(folder, "-m", "driftline", *words[1:])
        assert done.returncode in codes, f"{words}: {done.stderr[-3000:]}"
        said += done.stdout
    return said


def test_causes(tmp_path: Path) -> None:
    page = "docs/how-to/causes.md"
    assert "openvino/int64-in-32-bits" in run_typed(page, "driftline causes list", tmp_path)
    assert "64-bit integers" in run_typed(page, "driftline causes show", tmp_path)


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


NET = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))


def make():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(3, 8),)
"""


@pytest.fixture
def own_models(tmp_path: Path) -> Path:
    """What the pages call the reader's own: net.py:make, and model.onnx with input_ids of open sizes."""
    rng = np.random.default_rng(0)
    words, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((50, 8), (8, 4)))
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> m (int64[batch,seq] input_ids) => (float[batch,seq,4] y)'
        " { h = Gather(words, input_ids) z = MatMul(h, weight) y = Softmax<axis = -1>(z) }"
    )
    for name, array in (("words", words), ("weight", weight)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    for name in ("model.onnx", "original.onnx", "deployed.onnx"):
        onnx.save(model, tmp_path / name)
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


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
    for command in ("capture", "guards", "list", "analyze", "report", "clean"):
        run_typed(page, f"driftline inductor {command}", tmp_path)


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
