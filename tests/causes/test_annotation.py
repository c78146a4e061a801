"""A cause annotates bugs and groups them; an accepted one takes them out of the count, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftline.cli import run

OURS = "int64-in-32-bits"  # takes the place of the built-in cause
CAUSE = """
title = "64-bit integers are computed in 32 bits"
compiler = "openvino"
kinds = ["wrong-value"]
operators = ["abs", "neg"]
narrower = "int32"
needs = ["large"]
reported = "https://example.org/1"
{more}
[witness]
program = '''
import torch

def program():
    return torch.abs, (torch.tensor([-(2**40)]),)
'''
"""
PROGRAM = """
import torch

def program():
    return torch.{op}, (torch.tensor([-(2**40), 5]),)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for op in ("abs", "neg"):
        (tmp_path / f"{op}.py").write_text(PROGRAM.format(op=op))
    for name, more in (("told", ""), ("accepted", "accepted = true")):
        (tmp_path / name / "openvino").mkdir(parents=True)
        (tmp_path / name / "openvino" / f"{OURS}.toml").write_text(CAUSE.format(more=more))
    return tmp_path


def test_bugs_of_one_cause_stand_together_and_count_unless_it_is_accepted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(folder / "store")]
    told, accepted = ["--causes", str(folder / "told")], ["--causes", str(folder / "accepted")]
    check = ["check", f"{folder / 'abs.py'}:program", "--targets", "openvino", *store]
    assert run([*check, *told, "--json"]) == 1, "a cause silences nothing"
    (bug,) = json.loads(capsys.readouterr().out)["bugs"]
    assert bug["status"] == "new"
    assert [(one["id"], one["reported"]) for one in bug["causes"] if OURS in one["id"]] == [
        (f"openvino/{OURS}", "https://example.org/1")
    ]
    assert run([*check, *accepted]) == 0
    assert "1 accepted failure" in capsys.readouterr().out

    assert run(["check", f"{folder / 'neg.py'}:program", "--targets", "openvino", *store, *told]) == 1
    capsys.readouterr()
    assert run(["bugs", "list", *store, *told]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("64-bit integers are computed in 32 bits" in line for line in lines) == 1, "one title for both"
    assert sum(line.startswith("openvino-") for line in lines) == 2

    # What is written down later knows the user's causes too.
    assert run(["export", bug["id"], *store, *told, "--as", "json"]) == 0
    assert f"openvino/{OURS}" in {one["id"] for one in json.loads(capsys.readouterr().out)["causes"]}
    assert run(["reduce", bug["id"], *store, "--causes", str(folder / "nowhere")]) == 2
    assert "nowhere does not exist" in capsys.readouterr().err

    page = folder / "report.html"
    assert run(["report", *store, *told, "--out", str(page)]) == 0
    assert "64-bit integers are computed in 32 bits" in page.read_text()
    assert run(["report", *store, *accepted, "--format", "json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert {one["group"] for one in view["bugs"]} == {"accepted"}
    assert "2 accepted, counted apart" in view["verdict"]


def test_a_failure_right_beside_is_not_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from driftline.testing import plants_plugin

    (folder / "abs.py").write_text(PROGRAM.format(op="abs").replace("-(2**40)", "-7"))
    target = ["--targets", "openvino:plant=off-by-one", "--plugin", plants_plugin()]
    given = ["--store", str(folder / "store"), "--causes", str(folder / "accepted"), "--json"]
    assert run(["check", f"{folder / 'abs.py'}:program", *target, *given]) == 1
    (bug,) = json.loads(capsys.readouterr().out)["bugs"]
    assert bug["causes"] == []
