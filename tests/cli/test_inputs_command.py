"""`driftline inputs` as a user types it."""

import json

import numpy as np
import pytest

from driftline.cli import run

NET = """
import torch


def program():
    return (lambda x, y: x / (torch.exp(8 * (x - 1.2345)) - y)), (torch.ones(2), torch.ones(2))
"""


@pytest.fixture
def net(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_pole_is_found_written_and_asked_for_again(net, capsys):
    command = ["inputs", "net.py:program", "--goal", "inf", "--node", "div", "--budget", "20s", "--json"]
    assert run([*command, "--out", "bad.npz"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert [(row["goal"], row["outcome"], row["reach"]) for row in body["rows"]] == [("inf", "witness", "program")]
    assert body["files"] == ["bad.npz"]
    with np.load("bad.npz") as held:
        assert set(held) == {"x", "y"}
        x, y = (held[name][0].astype(np.float64) for name in ("x", "y"))
    assert abs(np.exp(8 * (x - 1.2345)) - y) < 1e-4 * max(1.0, abs(y)) or abs(x) > 1e30
    assert (net / "cache" / "slices.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--goal", "nann"], "Did you mean"),
        (["--goal", "diverge:fma/fmaa"], "lowering"),
        (["--dtype", "float17"], "--dtype float17"),
        (["--budget", "soon"], "--budget soon"),
        (["--out", "bad.txt"], ".npz"),
        (["--out", "nowhere/bad.npz"], "there is no folder"),
    ],
)
def test_a_mistake_is_one_sentence(net, capsys, arguments, said):
    assert run(["inputs", "net.py:program", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
