"""Slices of whole programs, and inputs of the programs that reach what was found in them."""

import json

import numpy as np
import pytest

from driftline.campaign.check import solving
from driftline.campaign.check.session import maker_of
from driftline.campaign.check.solving import solve_inputs, symbolic_samples
from driftline.checking.open import open_program
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError

PROGRAMS = """
import torch


class Deep(torch.nn.Module):
    \"\"\"Twelve layers, and in the ninth a division that has a pole.\"\"\"

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(32, 32) for _ in range(12)])
        self.w = torch.nn.Parameter(torch.randn(32))

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = torch.tanh(layer(x)) if number % 2 else torch.relu(layer(x)) + x
            if number == 8:
                x = x / (torch.relu(x @ self.w) - 3.1).unsqueeze(-1)
        return x


def deep():
    return Deep(), (torch.randn(2, 32, generator=torch.Generator().manual_seed(1)),)


def naive():
    return (lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)), (torch.zeros(3, 10),)


def stable():
    return (lambda x: torch.softmax(x, -1)), (torch.zeros(3, 10),)


def by_hand():
    def softmax(x):
        top = x.max(dim=-1, keepdim=True).values
        e = torch.exp(x - top)
        return e / e.sum(dim=-1, keepdim=True)

    return softmax, (torch.zeros(3, 4),)


def one_pass():
    return (lambda x: ((x * x).mean(-1) - x.mean(-1) ** 2).sqrt()), (torch.zeros(2, 4),)


def two_pass():
    return (lambda x: ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1).sqrt()), (torch.zeros(2, 4),)


def rms():
    return (lambda x: x / (x * x).mean(-1, keepdim=True).sqrt()), (torch.ones(2, 4),)


def uneven():
    return (lambda x: 1.0 / (x - torch.tensor([1e9, 2e9, 3.0]) * (x > 1e8) - 7.0)), (torch.zeros(3),)


def masked():
    return (lambda x: 1.0 / (1.0 - (x > 5.0).float())), (torch.zeros(3),)


def normalize():
    return (lambda x: torch.nn.functional.normalize(x)), (torch.ones(3, 4),)


def integers():
    return (lambda x: x + 1), (torch.arange(3),)


def wide():
    function = lambda x: torch.log(torch.nn.functional.layer_norm(x, (64,)).var(-1))
    return function, (torch.arange(128.0).reshape(2, 64),)
"""
OPTIONS = CheckOptions()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "nets.py"
    path.write_text(PROGRAMS)
    return path


@pytest.fixture
def ask(pool, source):
    def solved(name, **settings):
        opened = open_program(name if name.endswith(".onnx") else f"{source}:{name}", pool, OPTIONS)
        return solve_inputs(pool, opened, maker_of(opened, OPTIONS), OPTIONS, **settings)

    return solved


def test_a_pole_deep_in_a_model_is_reached_from_its_inputs(ask):
    found = ask("deep", goals="inf", budget=30)
    (row,) = found.rows
    assert (row.operator, row.outcome, row.reach) == ("div", "witness", "program")
    assert row.nan + row.inf > 0
    (inputs,) = found.inputs
    assert inputs.arrays["x"].shape == (2, 32)
    assert np.isfinite(inputs.arrays["x"]).all()


def test_naive_softmax_has_a_witness_and_the_stable_one_a_proof(ask):
    naive = {row.node: row for row in ask("naive", goals="nan", budget=20).rows}
    assert (naive["div"].outcome, naive["div"].reach) == ("witness", "program")
    assert naive["div"].nan
    stable = ask("stable", goals="nan", budget=20).rows
    assert [row.outcome for row in stable] == ["proof"]


def test_a_softmax_that_is_written_by_hand_is_proved_too(ask):
    found = ask("by_hand", goals="nan", budget=20)
    assert [(row.operator, row.outcome) for row in found.rows] == [("div", "proof")]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_means_are_looked_through(ask, dtype):
    one_pass = {row.operator: row for row in ask("one_pass", goals="nan", dtype=dtype, budget=20).rows}
    assert (one_pass["sqrt"].outcome, one_pass["sqrt"].reach) == ("witness", "program")
    assert any(name.startswith("x[") for name in one_pass["sqrt"].numbers)
    assert {row.outcome for row in ask("two_pass", goals="nan", dtype=dtype, budget=20).rows} == {"proof"}
    rms = ask("rms", goals="nan", dtype=dtype, budget=20).rows[-1]
    assert (rms.operator, rms.outcome, rms.reach) == ("div", "witness", "program")


def test_numbers_have_the_names_of_the_program(ask):
    row = next(row for row in ask("naive", goals="nan", budget=20).rows if row.reach == "program")
    assert row.numbers
    assert all(name.startswith("x[") for name in row.numbers)


def test_elements_that_compute_something_else_are_looked_at(ask):
    """All of them have a pole at seven; the constants make three expressions of them."""
    heard = []
    found = ask("uneven", goals="inf", budget=20, say=heard.append)
    assert found.rows[-1].reach == "program"
    assert any(words.endswith("inf at reciprocal") or "inf at div" in words for words in heard)


def test_a_mask_among_numbers_is_no_constant(ask):
    """It is zero for the example, and one beyond five."""
    found = ask("masked", goals="inf", budget=20)
    assert [row.reach for row in found.rows] == ["program"]


def test_the_dtype_decides(ask):
    """F.normalize clamps the norm at 1e-12, which is zero in float16."""
    assert ask("normalize", goals="nan", dtype="float16", node="div", budget=20).rows[0].reach == "program"
    assert ask("normalize", goals="nan", node="div", budget=20).rows[0].outcome == "proof"


def test_long_rows_are_tied(ask):
    """The variance of equal numbers is zero, and its logarithm is infinite: all 64 elements must be the same."""
    found = ask("wide", goals="inf", budget=20)
    row = next(row for row in found.rows if row.operator == "log")
    assert row.reach == "program"
    assert row.inf


def test_an_onnx_model_by_the_names_of_its_nodes(ask, tmp_path):
    import onnx
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Sqrt", ["x"], ["root"], name="/block/Sqrt"),
        helper.make_node("Div", ["y", "root"], ["out"], name="/block/Div"),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [3]), value("y", TensorProto.FLOAT, [3])],
        [value("out", TensorProto.FLOAT, [3])],
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    found = ask(str(path), goals="nan,inf", node="/block/Div", budget=20)
    assert {(row.label, row.goal, row.reach) for row in found.rows} == {
        ("/block/Div (Div)", "nan", "program"),
        ("/block/Div (Div)", "inf", "program"),
    }
    assert set(found.inputs[0].arrays) == {"x", "y"}
    with pytest.raises(DriftlineError, match="Did you mean '/block/Div'"):
        ask(str(path), goals="nan", node="/block/Dov")


def test_what_cannot_be_solved_is_one_sentence(ask):
    with pytest.raises(DriftlineError, match="no float inputs"):
        ask("integers")


def test_a_slice_is_solved_once(ask, monkeypatch, tmp_path):
    """What is kept is asked first, by the expression and not by the program; a witness is run before it is believed."""
    monkeypatch.setattr(solving, "cache_home", lambda: tmp_path)
    (first,) = [row for row in ask("naive", goals="nan", budget=20).rows if row.operator == "div"]
    kept = json.loads((tmp_path / "slices.json").read_text())
    for answer in kept["answers"].values():
        answer[1] = "remembered"
    (tmp_path / "slices.json").write_text(json.dumps(kept))
    (again,) = [row for row in ask("naive", goals="nan", budget=20).rows if row.operator == "div"]
    assert (again.step, again.reach, again.numbers) == ("remembered", "program", first.numbers)

    for answer in kept["answers"].values():
        answer[2] = [0.0] * len(answer[2])  # no witness
    (tmp_path / "slices.json").write_text(json.dumps(kept))
    (solved,) = [row for row in ask("naive", goals="nan", budget=20).rows if row.operator == "div"]
    assert (solved.step, solved.reach) == (first.step, "program")


def test_a_check_takes_what_was_solved(pool, source):
    opened = open_program(f"{source}:naive", pool, OPTIONS)
    samples = symbolic_samples(pool, opened, maker_of(opened, OPTIONS), OPTIONS, 2)
    assert len(samples) == 2
    assert all(sample.origin.startswith("symbolic ") for sample in samples)
