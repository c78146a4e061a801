"""Pictures of graphs stay readable: nothing overlaps, nothing leaves the picture, layers that repeat are folded."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driftline.inductor.capturing import write_capture
from driftline.inductor.drawing import draw
from driftline.inductor.folding import fold
from driftline.inductor.graph_text import PrintedGraph, PrintedNode, read_graph
from driftline.inductor.lab import Lab
from driftline.inductor.recorder import Compilation, Recording

LAYER = """
        norm_{n}: "f32[2, 12, 32]" = torch.ops.aten.native_layer_norm_with_a_long_name.default({x}, scale_{n})
        turned_{n}: "f32[32, 96]" = torch.ops.aten.permute.default(qkv_{n}, [1, 0])
        mm_{n}: "f32[2, 12, 96]" = torch.ops.aten.mm.default(norm_{n}, turned_{n})
        q_{n}: "f32[2, 4, 12, 8]" = torch.ops.aten.select.int(mm_{n}, 0)
        k_{n}: "f32[2, 4, 12, 8]" = torch.ops.aten.select.int(mm_{n}, 1)
        v_{n}: "f32[2, 4, 12, 8]" = torch.ops.aten.select.int(mm_{n}, 2)
        kt_{n}: "f32[2, 4, 8, 12]" = torch.ops.aten.transpose.int(k_{n}, 2, 3)
        scores_{n}: "f32[2, 4, 12, 12]" = torch.ops.aten.bmm.default(q_{n}, kt_{n})
        max_{n}: "f32[2, 4, 12, 1]" = torch.ops.aten.amax.default(scores_{n})
        sub_{n}: "f32[2, 4, 12, 12]" = torch.ops.aten.sub.Tensor(scores_{n}, max_{n})
        exp_{n}: "f32[2, 4, 12, 12]" = torch.ops.aten.exp.default(sub_{n})
        sum_{n}: "f32[2, 4, 12, 1]" = torch.ops.aten.sum.dim_IntList(exp_{n})
        div_{n}: "f32[2, 4, 12, 12]" = torch.ops.aten.div.Tensor(exp_{n}, sum_{n})
        mixed_{n}: "f32[2, 4, 12, 8]" = torch.ops.aten.bmm.default(div_{n}, v_{n})
        merged_{n}: "f32[2, 12, 32]" = torch.ops.aten.reshape.default(mixed_{n})
        x_{n}: "f32[2, 12, 32]" = torch.ops.aten.add.Tensor({x}, merged_{n})"""


def _transformer(layers: int) -> str:
    weights = "".join(f', scale_{n}: "f32[32]", qkv_{n}: "f32[96, 32]"' for n in range(layers))
    body = "".join(LAYER.format(n=n, x=f"x_{n - 1}" if n else "first") for n in range(layers))
    return (
        "class GraphModule(torch.nn.Module):"
        f'\n    def forward(self, tokens: "i64[2, 12]", table: "f32[64, 32]"{weights}):'
        f'\n        first: "f32[2, 12, 32]" = torch.ops.aten.embedding.default(table, tokens){body}'
        f'\n        last: "f32[2, 12, 64]" = torch.ops.aten.relu.default(x_{layers - 1})\n        return (last,)\n'
    )


def _tangled() -> PrintedGraph:
    nodes = [PrintedNode("n0", "aten.relu.default", "f32", ("2",), ("x",))]
    for at in range(1, 200):  # a chain with branches and long edges
        args = tuple(dict.fromkeys([f"n{at - 1 - at % 3 if at > 3 else at - 1}", f"n{at // 2}"]))
        nodes.append(PrintedNode(f"n{at}", "aten.add.Tensor", "f32", ("2", "3"), args))
    return PrintedGraph((PrintedNode("x", "input", "f32", ("2",)),), tuple(nodes), ("n199",))


TWELVE = read_graph(_transformer(12))  # 194 nodes and 26 inputs
GRAPHS = {"transformer": TWELVE, "tangled": _tangled()}
MANY_KERNELS = {node.name: range(at, at + at % 30) for at, node in enumerate(TWELVE.nodes)}


@dataclass(frozen=True)
class Box:
    """A node in the picture, and its two lines of text."""

    name: str
    x: float
    y: float
    width: float
    height: float
    texts: tuple[tuple[float, float, str], ...]  # place and text


def _boxes(svg: str) -> list[Box]:
    found = []
    for name, inside in re.findall(r'<g class="node[^"]*" data-node="([^"]*)".*?</title>(.*?)</g>', svg, re.DOTALL):
        frame = re.search(r'<rect class="box" x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', inside)
        assert frame is not None
        texts = re.findall(r'<text.*? x="(\d+)" y="(\d+)">(.*?)</text>', inside)
        left, top, width, height = map(float, frame.groups())
        found.append(Box(name, left, top, width, height, tuple((float(x), float(y), text) for x, y, text in texts)))
    return found


def _size(svg: str) -> tuple[float, float]:
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', svg)
    assert found is not None
    return float(found[1]), float(found[2])


@pytest.mark.parametrize("name", GRAPHS)
def test_no_boxes_overlap_and_none_leaves_the_picture(name: str) -> None:
    graph = GRAPHS[name]
    svg = draw(graph)
    boxes = _boxes(svg)
    assert {box.name for box in boxes} == {node.name for node in (*graph.inputs, *graph.nodes)}
    width, height = _size(svg)
    for box in boxes:
        assert box.x >= 0 and box.x + box.width <= width and box.y >= 0 and box.y + box.height <= height
    for one, other in itertools.combinations(boxes, 2):
        assert abs(one.x - other.x) > one.width or abs(one.y - other.y) > one.height


@pytest.mark.parametrize("kernels", [{}, MANY_KERNELS], ids=["no kernels", "many kernels"])
def test_labels_stay_within_their_boxes(kernels: Mapping[str, range]) -> None:
    for box in _boxes(draw(TWELVE, kernels)):
        (left, upper, label), (_, lower, kind) = box.texts
        assert label.partition(" #")[0].strip("…") and lower - upper >= 11  # one text is not on the other
        for letters, each in ((len(label), 0.62 * 11), (len(kind), 0.62 * 10)):  # the widest of common fonts
            assert left + letters * each <= box.x + box.width


@pytest.mark.parametrize("name", GRAPHS)
def test_no_line_runs_through_a_box(name: str) -> None:
    svg = draw(GRAPHS[name])
    boxes = _boxes(svg)
    past_rows = re.findall(r'<path d="M(\d+) (\d+)V(\d+)', svg)
    assert len(past_rows) > 50
    for x, top, bottom in past_rows:
        beside = [box for box in boxes if float(top) <= box.y < float(bottom)]
        assert all(not box.x <= float(x) <= box.x + box.width for box in beside)


def test_a_weight_and_what_is_made_of_it_stand_above_their_reader() -> None:
    svg = draw(TWELVE)
    row = {box.name: round(box.y) for box in _boxes(svg)}
    rows = sorted(set(row.values()))
    for n in range(12):
        assert rows.index(row[f"mm_{n}"]) - rows.index(row[f"turned_{n}"]) == 1
        assert rows.index(row[f"turned_{n}"]) - rows.index(row[f"qkv_{n}"]) == 1
    assert _size(svg)[0] < 1100  # twelve lines from the top to each layer would take more


def test_long_names_of_weights_are_told_by_their_ends() -> None:
    name = "L_self_modules_blocks_modules_7_modules_attention_modules_qkv_parameters_weight_"
    graph = PrintedGraph((PrintedNode(name, "input", "f32", ("2",)),), (), (name,))
    ((_, _, label), _) = _boxes(draw(graph))[0].texts
    assert label.endswith("_qkv_weight") and label.startswith("…")


def test_layers_that_repeat_are_folded() -> None:
    folded = fold(TWELVE)
    assert folded is not None
    assert list(folded.members) == [f"layer {n} of 12" for n in range(2, 13)]
    for n, names in enumerate(folded.members.values(), 1):
        assert set(names) == {node.name for node in TWELVE.nodes if node.name.endswith(f"_{n}")}
    boxes = {node.name: node for node in folded.graph.nodes}
    assert boxes["layer 2 of 12"].args == ("x_0",) and boxes["layer 3 of 12"].args == ("layer 2 of 12",)
    assert boxes["last"].args == ("layer 12 of 12",) and boxes["layer 2 of 12"].dtype == "16 nodes"
    drawn = _boxes(draw(folded.graph, folded=folded.members))
    assert len(drawn) == 2 + 2 + 1 + 16 + 11 + 1  # tokens and table, one layer's weights and nodes, layers, both ends


def test_what_does_not_repeat_is_not_folded() -> None:
    assert fold(read_graph(_transformer(1))) is None
    assert fold(read_graph(_transformer(2))) is None  # one layer of sixteen nodes: a picture can show that
    assert fold(PrintedGraph((), (), ())) is None


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The page of a capture of this graph, in a narrow window."""
    run = Lab(tmp_path_factory.mktemp("drawing")).new_run("capture", "twelve")
    heard = Recording()
    heard.compilations["0/0"] = Compilation("0/0", graphs={"forward": _transformer(12)})
    write_capture(run, heard, "2.0")
    page = browser.new_page(viewport={"width": 420, "height": 800})
    page.goto(Path(run.folder / "index.html").resolve().as_uri())
    return page


def test_a_browser_finds_every_label_within_its_box(page: Any) -> None:
    page.locator("[data-fold]").click()  # the whole graph
    inside, outside = page.evaluate(
        """() => { const found = [0, 0];
        for (const g of document.querySelectorAll("[data-view=whole] g.node")) {
          const box = g.querySelector("rect").getBBox();
          for (const text of g.querySelectorAll("text")) {
            const at = text.getBBox(), right = at.x + at.width, bottom = at.y + at.height;
            found[at.x >= box.x && right <= box.x + box.width && bottom <= box.y + box.height ? 0 : 1]++;
          } }
        return found; }"""
    )
    assert inside == 2 * (194 + 26) and outside == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 420
    page.locator("[data-fold]").click()


def test_a_node_is_found_and_a_folded_layer_opens(page: Any) -> None:
    page.locator("input[type=search]").fill("bmm")
    assert page.locator("[data-found]").inner_text() == "1 of 2; Enter: the next"  # the first layer alone is open
    page.keyboard.press("Enter")
    assert page.locator("[data-found]").inner_text().startswith("2 of 2")
    page.locator('g.fold[data-node="layer 5 of 12"]').dispatch_event("click")
    assert page.locator("[data-view=whole] g.hit").count() == 16
    assert page.locator('[data-view=whole] g.hit[data-node="exp_4"]').is_visible()
    assert page.locator("tr.node.hit").count() == 16
