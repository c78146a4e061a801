"""`driftline causes` as a user types it, on a folder of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftline.cli import run

BUILTIN = "int64-in-32-bits"  # ours takes its place: no other cause may explain a witness
CAUSE = """
title = "64-bit integers are computed in 32 bits"
compiler = "openvino"
seen = ["2026.4.1"]
kinds = ["wrong-value"]
operators = ["abs"]
dtypes = ["int64"]
{conditions}
[witness]
program = '''
import torch

def program():
    return torch.abs, (torch.tensor([{number}, 5]),)
'''
[neighbour]
plant = "off-by-one"
program = '''
import torch

def program():
    return torch.abs, (torch.tensor([-3, 5]),)
'''
"""


def _folder(tmp_path: Path, **files: tuple[str, str]) -> Path:
    folder = tmp_path / "causes" / "openvino"
    folder.mkdir(parents=True)
    for name, (number, conditions) in files.items():
        (folder / f"{name}.toml").write_text(CAUSE.format(number=number, conditions=conditions))
    return folder.parent


def test_a_cause_holds_is_due_for_removal_or_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(
        tmp_path,
        **{BUILTIN: ("-(2**40)", "got = [0, 2147483647, -2147483648]")},
        passes=("-7", 'faults = ["nan-made"]'),
        elsewhere=("-(2**40)", 'got = [0]\nmachines = ["riscv64"]'),
        unlike=("-(2**40)", 'faults = ["nan-lost"]'),
    )
    names = [f"openvino/{BUILTIN}", "passes", "elsewhere", "unlike"]
    assert run(["causes", "check", *names, "--causes", str(folder), "--json"]) == 1
    told = {one["id"]: one for one in json.loads(capsys.readouterr().out)["checked"]}
    assert {name.partition("/")[2]: one["state"] for name, one in told.items()} == {
        BUILTIN: "holds",
        "passes": "due",
        "elsewhere": "skipped",
        "unlike": "wrong",
    }
    assert "its witness passes" in told["openvino/passes"]["reason"]
    assert "riscv64" in told["openvino/elsewhere"]["reason"]
    assert "faults nan-lost" in told["openvino/unlike"]["reason"]
    assert "expected 3, got 4" in told[f"openvino/{BUILTIN}"]["neighbour"]


@pytest.mark.slow
def test_a_cause_of_less_precise_arithmetic_is_held_against_what_explains_its_witness(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["causes", "check", "tvm/resize-of-float64", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["checked"]
    assert (told["state"], told["witness"]) == ("holds", "agrees if it may compute float64 in float32")


def test_list_and_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(_folder(tmp_path, narrowed=("-(2**40)", 'got = [0]\ndebatable = "documented"')))
    assert run(["causes", "list", "--causes", folder, "--debatable", "--compiler", "openvino"]) == 0
    assert "openvino/narrowed" in capsys.readouterr().out
    assert run(["causes", "list", "--causes", folder, "--reported", "--json"]) == 0
    assert "openvino/narrowed" not in capsys.readouterr().out
    assert run(["causes", "show", "narrowed", "--causes", folder]) == 0
    shown = capsys.readouterr().out
    assert "torch.tensor([-(2**40), 5])" in shown and "planted fault: off-by-one" in shown and "documented" in shown
    assert run(["causes", "show", "narowed", "--causes", folder]) == 2
    assert "Did you mean 'openvino/narrowed'" in capsys.readouterr().err
    assert run(["causes", "list", "--causes", str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_project_names_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _folder(tmp_path, narrowed=("-(2**40)", "got = [0]"))
    (tmp_path / "driftline.toml").write_text('causes = ["causes"]\n')
    monkeypatch.chdir(tmp_path)
    assert run(["causes", "list"]) == 0
    assert "openvino/narrowed" in capsys.readouterr().out
