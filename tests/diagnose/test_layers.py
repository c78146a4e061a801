"""The view layer by layer: the first bad layer is named, and what taps change is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from transformer_models import swap_heads, transformer

from driftline.campaign.check.layering import look_inside
from driftline.campaign.check.session import check_program
from driftline.checking.checker import Checker
from driftline.checking.deployed import deploy
from driftline.checking.open import open_program
from driftline.cli import run
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import parse_targets
from driftline.diagnose.layers.choose import chunks, ends_of_blocks
from driftline.diagnose.layers.match import Pair, matched, same_program
from driftline.diagnose.layers.measure import Errors, measure_all
from driftline.diagnose.layers.result import Layer, View
from driftline.oracle.outputs import ShadowAnswer
from driftline.programs.taps.scopes import block, onnx_scope
from driftline.programs.taps.tap import Tap
from driftline.report.gather import gather
from driftline.report.html import render
from driftline.report.layers import share_of, size_of, sizes
from driftline.store import Store

Body = dict[str, Any]
FUSING = str(Path(__file__).with_name("fusing_backend.py"))


def look(
    checker: Checker,
    store_folder: Path,
    program: str,
    targets: str,
    *,
    reference: str = "",
    taps: str = "auto",
    plugins: tuple[str, ...] = (),
) -> Body:
    """The view of the first of the targets."""
    load_plugins(plugins)
    options = CheckOptions(plugins=plugins)
    opened = open_program(program, checker.pool, options)
    if reference:
        opened = deploy(opened, open_program(reference, checker.pool, options))
    with Store.create(store_folder) as store:
        result = check_program(checker, store, opened, targets=parse_targets(targets), options=options)
        return look_inside(checker, store, result, taps=taps)[0]


def layer(body: Body, number: int | None) -> Body:
    return next(row for row in body["layers"] if row["number"] == number)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    model = transformer(layers=4)
    onnx.save(model, str(folder / "original.onnx"))
    onnx.save(swap_heads(model, 2, "query"), str(folder / "swapped.onnx"))
    return folder


def test_swapped_heads_are_localised_to_their_layer(
    checker: Checker, models: Path, store_folder: Path, tmp_path: Path
) -> None:
    body = look(
        checker,
        store_folder,
        str(models / "swapped.onnx"),
        "onnxruntime",
        reference=str(models / "original.onnx"),
    )
    first = layer(body, body["first"])
    assert (first["scope"], first["op"]) == ("encoder.layer.2.attention.query", "MatMul")
    assert body["made_at"] == [body["first"]]  # the rest of the block carries the error on
    assert body["explained"] is True and body["verdict"] == "fail"
    # The ends of blocks were looked at first: inside the blocks that are right nothing was.
    before = [row for row in body["layers"] if row["number"] < body["first"]]
    assert before and all(row["end_of_block"] and not row["beyond"] for row in before)
    assert body["left_out"] == body["values"] - sum(not row["output"] for row in body["layers"])
    page = render(gather(store_folder))
    assert "the file moved it by" in page and "the compiler moved it by" not in page
    assert "Layer by layer" in page and "encoder.layer.2.attention.query: MatMul</text>" in page


def test_a_sound_model_stays_within_the_band(checker: Checker, models: Path, store_folder: Path) -> None:
    body = look(checker, store_folder, str(models / "original.onnx"), "onnxruntime", taps="all")
    assert body["first"] is None and body["left_out"] == 0 and body["explained"] is None
    sizes = [row["sigma"] for row in body["layers"]]
    assert len(sizes) == body["values"] + 1 and all(size is not None and size < body["band"] for size in sizes)
    assert any(size > 0.5 for size in sizes)  # it rounds otherwise than the reference, and that is seen


TORCH = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + self.down(torch.relu(self.up(x))))


def model():
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(4))).eval(), (torch.randn(3, 8),)


def tampered():
    module, inputs = model()
    with torch.no_grad():
        module[2].down.weight[0] *= 1.01
    return module, inputs
"""


@pytest.mark.parametrize("target", [pytest.param("eager", marks=pytest.mark.slow), "onnxruntime"])
def test_torch_programs_are_looked_into(checker: Checker, tmp_path: Path, store_folder: Path, target: str) -> None:
    file = tmp_path / "net.py"
    file.write_text(TORCH)
    body = look(checker, store_folder, f"{file}:tampered", target, reference=f"{file}:model")
    first = layer(body, body["first"])
    assert (first["scope"], first["op"]) == ("2.down", "linear")
    assert body["made_at"] == [body["first"]]


SQUASH = """
<ir_version: 8, opset_import: ["": 18]>
squash (float[4] x) => (float[4] y) <float one = {1.1}, float two = {2.2}> {
    scaled = Mul(x, two)
    positive = Relu(scaled)
    y = Sub(positive, one)
}
"""


def test_taps_that_undo_a_wrong_fusion_are_told(checker: Checker, tmp_path: Path, store_folder: Path) -> None:
    """The compiler is wrong only as long as what it fuses is not an output."""
    path = tmp_path / "squash.onnx"
    onnx.save(parser.parse_model(SQUASH), str(path))
    body = look(checker, store_folder, str(path), "odd-fusion", taps="all", plugins=(FUSING,))
    assert body["verdict"] == "fail" and layer(body, body["first"])["output"]
    assert "With taps the target computes other values" in body["observer"]
    assert "With taps the program's verdict is pass" in body["observer"]
    assert body["made_at"] == [] and "each of the" in " ".join(body["sentences"])


def tap(value: str, shape: Sequence[int] = (4,), scope: str = "", position: int = 0, alive: int = 1) -> Tap:
    return Tap(value, position, "Op", value, scope, "float32", tuple(shape), alive)


def test_a_chunk_has_a_bounded_number_of_elements() -> None:
    pairs = same_program([tap(f"v{n}", (100,)) for n in range(10)] + [tap("large", (5000,)), tap("open", (-1, 2))])
    found = list(chunks(pairs, elements=300))
    assert [pair for chunk in found for pair in chunk] == pairs
    assert all(len(chunk) == 1 or sum(p.tap.size or 5000 for p in chunk) <= 300 for chunk in found)


def test_blocks_end_where_modules_do_or_where_few_values_are_alive() -> None:
    named = same_program([tap(f"v{n}", scope=f"encoder.layer.{n // 3}.part") for n in range(9)])
    assert [pair.number for pair in ends_of_blocks(named)] == [2, 5, 8]
    nameless = same_program([tap(f"v{n}", alive=1 if n % 8 == 6 else 3) for n in range(32)])
    assert [pair.number for pair in ends_of_blocks(nameless)] == [6, 14, 22, 30]


def test_results_are_not_counted_among_the_values() -> None:
    taps = [tap("a"), replace(tap("y"), returned=True), tap("b")]
    assert [pair.number for pair in same_program(taps)] == [0, 1]
    assert numbers(matched(taps, taps)[0]) == [(0, "a"), (1, "b")]


def seen(number: int, sigma: float | None, *, beyond: bool = False, own: bool | None = None, quanta: int = 0) -> Layer:
    alone = None if own is None else Errors(sigma=1.0, beyond=own)
    return Layer(number, tap(f"v{number}"), Errors(sigma, beyond=beyond, quanta=quanta), end=True, own=alone)


def said(verdict: str, *layers: Layer, left_out: int = 0) -> str:
    view = View("target", "program", "", verdict, layers, values=9, left_out=left_out, taps="blocks")
    return " ".join(view.sentences())


def test_only_what_was_looked_at_is_called_right() -> None:
    few = said("pass", seen(0, 1.0), seen(5, 2.0), left_out=7)
    assert few.startswith("The 2 block ends that were looked at, and the results, are within the band")
    assert "--taps all looks at every value" in few and "Every layer" not in few
    assert said("pass", seen(0, 1.0)).startswith("Every layer is within the band")
    assert "1 of these could not be judged" in said("pass", seen(0, 1.0), seen(1, None))


def test_layers_that_are_right_do_not_all_carry_an_error() -> None:
    bad = seen(1, 1e6, beyond=True, own=True)
    assert "The other layer of that block is right by itself." in said("fail", seen(0, 0.0, own=False), bad)
    carrying = seen(2, 1e5, beyond=True, own=False)
    assert "The other layer of that block is right by itself and carries the error on." in said("fail", bad, carrying)
    mixed = said("fail", seen(0, 0.0, own=False), bad, carrying)
    assert "The other 2 of that block are right by themselves; 1 of them carries the error on." in mixed


def test_steps_of_quantised_values_are_no_error_where_the_result_passes() -> None:
    """A step has no noise: by rounding alone it is as far off as can be. Values further off stay beyond the band."""
    zero, step = np.zeros(4), np.full(4, 0.5)

    def ask(arithmetic: str, runs: int, outputs: object) -> ShadowAnswer:
        wide = {"": 0.0, "requantise": 1.0, "requantise-2": 2.0}[arithmetic]
        steps = dict.fromkeys(("one", "two", "far"), wide * step)
        low, same = {n: -s for n, s in steps.items()}, dict.fromkeys(steps, zero)
        samples = {n: np.zeros((runs, 4)) for n in steps}
        return ShadowAnswer(reference=same, samples=samples, low=low, high=steps, uses=("float32", "quantised"))

    got = {name: (step * size).astype(np.float32) for name, size in {"one": 1, "two": 2, "far": 5}.items()}
    native = {name: zero.astype(np.float32) for name in got}
    found = measure_all(got, native, ask, "", quanta=True)
    assert {n: (e.beyond, e.quanta) for n, e in found.items()} == {
        "one": (False, 1),
        "two": (False, 2),
        "far": (True, 0),
    }
    assert all(errors.beyond for errors in measure_all(got, native, ask, "").values())
    told = said("pass", seen(0, 1.0), seen(1, None, quanta=2))
    assert "One of the values differs" in told and "up to 2 quanta off" in told and "could not be judged" not in told


def test_numbers_of_one_column_have_one_format() -> None:
    assert [size_of(value) for value in (0.0, 0.62, 12.3, 630.0, 3000.0, 2.8e6, 1e12)] == [
        *("0", "0.62", "12", "630", "3.0e3", "2.8e6", ">1e9")
    ]
    assert [share_of(value) for value in (0.0, 1e-7, 0.6, None)] == ["0", "1e-7", "6e-1", ""]
    assert sizes((-1, 4, 48)) == "?x4x48"


def numbers(pairs: Sequence[Pair]) -> list[tuple[int, str]]:
    return [(pair.number, pair.run.value) for pair in pairs]


def test_values_of_two_programs_are_matched() -> None:
    ours = [tap(f"linear_{n}", (2, n + 1), f"layer.{n}", n) for n in range(4)]
    by_name, how = matched(ours, [tap("linear_1", (2, 2)), tap("linear_3", (9, 9))])
    assert numbers(by_name) == [(1, "linear_1")] and "names" in how  # another shape is another value
    exported = [
        tap(f"/layer.{n}/{op}", (2, n + 1), f"layer.{n}", 2 * n + (op == "Add"))
        for n in range(4)
        for op in ("MatMul", "Add")
    ]
    by_module, how = matched(ours, exported)
    assert numbers(by_module) == [(n, f"/layer.{n}/Add") for n in range(4)] and "modules" in how
    wrapped = [replace(one, scope=f"module.model.{one.scope}") for one in exported]
    assert numbers(matched(ours, wrapped)[0]) == numbers(by_module)
    nameless = [tap(str(100 + n), (2, n + 1), "", n) for n in range(4)]
    by_shape, how = matched(ours, [tap("99", (7,)), *nameless])
    assert numbers(by_shape) == [(n, str(100 + n)) for n in range(4)] and "shape" in how


def test_the_module_of_a_node_is_read_from_what_exporters_write() -> None:
    dynamo = {"pkg.torch.onnx.name_scopes": "['', 'encoder', 'encoder.layer.0', 'linear']"}
    assert onnx_scope("node_linear", dynamo) == "encoder.layer.0"
    assert (
        onnx_scope("node_linear", {"namespace": ": Net/encoder.layer.0: Layer/linear: aten.linear"})
        == "encoder.layer.0"
    )
    assert onnx_scope("/encoder/layer.0/query/MatMul", {}) == "encoder.layer.0.query"
    assert onnx_scope("MatMul_7", {}, ["encoder.layer.0.query.weight"]) == "encoder.layer.0.query"
    assert onnx_scope("MatMul_7", {}, ["onnx::MatMul_12"]) == ""
    assert block("encoder.layer.3.attention.self") == "encoder.layer.3" and block("head") == ""


def test_the_command_writes_json_and_a_page(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "layers.html"
    command = f"check {models / 'swapped.onnx'} --reference {models / 'original.onnx'} --targets onnxruntime --layers"
    command += f" --taps blocks --json --store {tmp_path / 'store'} --out {page}"
    assert run(command.split()) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["program"]["name"] == "swapped.onnx" and told["reference"]["name"] == "original.onnx"
    (view,) = told["layers"]
    assert view["target"] == "onnxruntime" and layer(view, view["first"])["scope"].startswith("encoder.layer.2")
    assert page.read_text().count("<title>") > len(view["layers"])  # a tooltip for every layer


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--layers --taps some", "--taps some: give one of auto, blocks, all."),
        ("--out layers.html", "add --layers"),
        ("--layers --out layers.pdf", "name a file that ends in .html"),
        ("--layers --lift", "cannot be used with --layers"),
    ],
)
def test_wrong_options_are_one_sentence(
    models: Path, options: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", str(models / "original.onnx"), *options.split()]) == 2
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said
