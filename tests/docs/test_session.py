"""What the documentation shows is what a reader gets: the README's picture, the quick commands, the code blocks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, Block, blocks, commands, words_of

from driftline.cli import run

sys.path.insert(0, str(ROOT / "docs" / "site"))

from picture import COMMAND, PICTURE, lines_of

BUG_ID = re.compile(r"\b(inductor|onnxruntime)-[0-9a-f]{4,8}\b")

# Commands of the pages that are quick once something was found, in an order that makes sense.
QUICK = [
    "driftline models list",
    "driftline models list --family decoder --json",
    "driftline report --out report.html",
    "driftline export inductor-5f460e8e --as issue --out issue.md",
]


def code_block(page: str, phrase: str) -> Block:
    (found,) = (block for block in blocks(ROOT / page) if block.language == "python" and phrase in block.text)
    return found


def plain(text: str) -> list[str]:
    """The lines of an output without what differs from run to run: seconds, the width of the terminal."""
    text = re.sub(r"[╭╮╰╯─│]", " ", text)
    text = re.sub(r"(?<=\s)\d+\.\d+(?=\s)", "N", text)
    text = text.replace("2.13.0+cpu", "2.13.0")
    return [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]


def test_the_picture_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "zero.py").write_text(code_block("README.md", "# zero.py").text)
    command, *shown = lines_of(PICTURE.read_text())
    assert command == f"$ {COMMAND}"
    run(list(words_of(COMMAND)[1:]))
    assert plain(capfd.readouterr().out) == plain("\n".join(shown)), "draw the picture again: docs/site/picture.py"

    (bug,) = set(re.findall(r"\binductor-[0-9a-f]{8}\b", "\n".join(shown)))
    in_pages = {" ".join(command.words) for command in commands("driftline")}
    for command in QUICK:
        assert command in in_pages, f"no page has {command!r} any more"
        code = run(list(words_of(BUG_ID.sub(bug, command))[1:]))
        said = capfd.readouterr()
        assert code == 0, f"{command}: {said.err}"
    assert bug in (tmp_path / "report.html").read_text()
    assert "torch.compile" in (tmp_path / "issue.md").read_text()


def run_python(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "block.py").write_text(text)
    environment = {**os.environ, "DRIFTLINE_STORE": str(folder / "store")}
    return subprocess.run(
        [sys.executable, "block.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=560
    )


@pytest.mark.parametrize(
    ("page", "phrase", "prints"),
    [
        ("README.md", "driftline.check(", "onnxruntime:opt=all pass"),
        ("docs/how-to/use-as-a-library.md", "def twice", ""),
        ("docs/how-to/use-as-a-library.md", "def listen", "onnxruntime {"),
        ("docs/how-to/hunt.md", "register_generator", ""),
        ("docs/how-to/real-models.md", "models.build", "torch.Size("),
    ],
)
def test_a_code_block_runs(page: str, phrase: str, prints: str, tmp_path: Path) -> None:
    done = run_python(code_block(page, phrase).text, tmp_path)
    assert done.returncode == 0, done.stderr
    assert prints in done.stdout


@pytest.mark.slow
def test_the_script_of_a_bug_shows_the_bug(tmp_path: Path) -> None:
    done = run_python(code_block("docs/how-to/report-a-bug.md", "floor_divide").text, tmp_path)
    assert done.returncode == 1 and "BUG:" in done.stderr, done.stderr


# What the page's compiler is imagined to bring: a real evaluator behind the interface that the page uses.
MYCHIP_SDK = """
import onnx
from onnx.reference import ReferenceEvaluator

class build:
    def __init__(self, data, level):
        self._evaluator = ReferenceEvaluator(onnx.load_model_from_string(data))
        self.output_names = self._evaluator.output_names

    def run(self, arrays):
        return self._evaluator.run(None, dict(arrays))
"""


def test_the_backend_of_the_page_is_a_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    page = "docs/how-to/add-a-backend.md"
    text = code_block(page, "# mychip.py").text.replace('distribution = "mychip-sdk"', 'distribution = "onnx"')
    (tmp_path / "mychip.py").write_text(text)
    (tmp_path / "mychip_sdk.py").write_text(MYCHIP_SDK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(tmp_path)
    (command,) = (each for each in commands("driftline") if each.where.startswith(page) and "check" in each.words)
    model = f"{ROOT}/examples/models/onnx_mlp.py:float32"
    words = [model if word == "model.onnx" else word for word in command.words[1:]]
    assert run(words) == 0, capfd.readouterr()
    assert "2 pass" in capfd.readouterr().out
