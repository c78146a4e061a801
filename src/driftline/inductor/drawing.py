"""Draws a graph as an SVG picture, from top to bottom, readable up to some hundred nodes.

The drawing has layers: a node is one layer below the lowest node it reads; edges that cross layers get positions of
their own there, so that they run beside nodes and not through them; a few sweeps order each layer by the positions of
neighbours. Text has the same size in all graphs, so a large graph makes a large picture. Inputs, and nodes computed
from inputs alone (a transposed weight), are right above the first node that reads them. Nodes computed by one kernel
share a colour (colour-blind safe) and the kernel's number. The picture follows the page's dark mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

from driftline.inductor.graph_text import PrintedGraph, PrintedNode
from driftline.inductor.statistics import short_op

_BOX, _THREAD, _HEIGHT, _LAYER, _GAP, _MARGIN = 150.0, 10.0, 30.0, 52.0, 14.0, 16.0
_SWEEPS = 6
_WAY = re.compile(r"(?<![a-z])(?:modules|parameters|buffers)_")
_LETTERS, _SMALL_LETTERS = 20, 22  # letters that fit into a box, even in slightly wider fonts
# Okabe and Ito's colours, light enough to write on.
_COLOURS = ("#a6cfe8", "#f5d08a", "#a5dcc8", "#f3b79b", "#dcb8d4", "#f6eca0", "#9dbfd9", "#cfcfcf")
# In the file itself, so that it is the same alone and within a page. Boxes of a kernel are light: their text is dark.
_STYLE = """
.graph .ground{fill:#fff} .graph path{fill:none;stroke:#888}
.graph text{fill:#111} .graph .small{fill:#444;font-size:10px}
.graph rect.box{stroke:#777;fill:#fff} .graph .input rect.box{fill:#f0f0f0}
.graph .fold rect.box{stroke-dasharray:5 3;fill:#eef} .graph .output rect.box{stroke:#000;stroke-width:2.5}
@media (prefers-color-scheme:dark){
.graph .ground{fill:#16181c} .graph path{stroke:#8a8f98}
.graph text{fill:#e8e8e8} .graph .small{fill:#bbb}
.graph rect.box{stroke:#aaa;fill:#22262c} .graph .input rect.box{fill:#33383f}
.graph .fold rect.box{fill:#2b3050} .graph .output rect.box{stroke:#fff}
.graph .kernel-box text{fill:#111} .graph .kernel-box .small{fill:#333}}
"""


def draw(
    graph: PrintedGraph, kernels: Mapping[str, Sequence[int]] | None = None, *, title: str = "",
    folded: Mapping[str, Sequence[str]] | None = None,
) -> str:  # fmt: skip
    """Return the picture. `kernels`: the kernels that compute each node; `folded`: the nodes behind each box."""
    kernels, folded = kernels or {}, folded or {}
    nodes = {node.name: node for node in (*_read_inputs(graph), *graph.nodes)}
    layer = _layers(graph, nodes)
    rows, edges = _threaded(nodes, layer)
    _order(rows, edges)
    x = _places(rows, edges, nodes)
    width = max([x[name] + _width(name, nodes) for row in rows for name in row], default=0) + _MARGIN
    height = 2 * _MARGIN + _LAYER * max(len(rows), 1)
    y = {name: _MARGIN + _LAYER * at for at, row in enumerate(rows) for name in row}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" width="{width:.0f}" height="{height:.0f}"'
        f' viewBox="0 0 {width:.0f} {height:.0f}" font-family="ui-monospace, monospace" font-size="11" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        '<rect class="ground" width="100%" height="100%"/>',
    ]
    for above, below in edges:
        x1, x2 = x[above] + _width(above, nodes) / 2, x[below] + _width(below, nodes) / 2
        y1, y2 = y[above] + _HEIGHT, y[below]
        middle = (y1 + y2) / 2
        # A thread runs straight down beside the boxes of its row, and bends between rows only.
        begin = f"M{x1:.0f} {y1:.0f}" if above in nodes else f"M{x1:.0f} {y[above]:.0f}V{y1:.0f}"
        parts.append(f'<path d="{begin}C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}"/>')
    for name, node in nodes.items():
        parts.append(_box(node, x[name], y[name], kernels.get(name, ()), name in graph.outputs, folded.get(name, ())))
    parts.append("</svg>")
    return "\n".join(parts)


def _read_inputs(graph: PrintedGraph) -> list[PrintedNode]:
    """Return the inputs that are read; others would only take space."""
    read = {arg for node in graph.nodes for arg in node.args} | set(graph.outputs)
    return [node for node in graph.inputs if node.name in read]


def _layers(graph: PrintedGraph, nodes: Mapping[str, PrintedNode]) -> dict[str, int]:
    layer: dict[str, int] = {}
    for node in graph.nodes:
        layer[node.name] = 1 + max([layer.get(arg, 0) for arg in node.args], default=0)
    users: dict[str, list[str]] = {}
    for node in graph.nodes:
        for arg in node.args:
            users.setdefault(arg, []).append(node.name)
    lowered = _made_of_inputs(graph, users)
    for node in (*reversed(graph.nodes), *graph.inputs):
        if node.name in lowered or node.op == "input":
            lowest = 1 if node.op == "input" else layer[node.name] + 1
            layer[node.name] = min((layer[user] for user in users.get(node.name, ())), default=lowest) - 1
    return {name: layer[name] for name in nodes}


def _made_of_inputs(graph: PrintedGraph, users: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the nodes that are computed from inputs alone. At the top of the picture, each would draw a line past
    everything that is computed before it is read."""
    inputs = {node.name for node in graph.inputs}
    found: set[str] = set()
    for node in graph.nodes:
        computed = [arg for arg in node.args if arg not in inputs]
        if not computed or (len(computed) == 1 and computed[0] in found and len(users[computed[0]]) == 1):
            found.add(node.name)
    return found


def _threaded(
    nodes: Mapping[str, PrintedNode], layer: Mapping[str, int]
) -> tuple[list[list[str]], list[tuple[str, str]]]:
    """Return the rows of names, and the edges between neighbouring rows. All long edges of a value share one thread of
    points."""
    rows: list[list[str]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    for name in nodes:
        rows[layer[name]].append(name)
    edges: dict[tuple[str, str], None] = {}
    made: set[str] = set()
    for name, node in nodes.items():
        for arg in node.args:
            if arg not in nodes:
                continue
            before = arg
            for at in range(layer[arg] + 1, layer[name]):
                thread = f"{arg}\0{at}"
                if thread not in made:
                    made.add(thread)
                    rows[at].append(thread)
                edges[before, thread] = None
                before = thread
            edges[before, name] = None
    return rows, list(edges)


def _order(rows: list[list[str]], edges: Sequence[tuple[str, str]]) -> None:
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for a, b in edges:
        above.setdefault(b, []).append(a)
        below.setdefault(a, []).append(b)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for at in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            other = {name: place for place, name in enumerate(rows[at - 1 if down else at + 1])}
            near = above if down else below

            def weight(name: str, other: dict[str, int] = other, near: dict[str, list[str]] = near) -> float:
                places = [other[n] for n in near.get(name, ()) if n in other]
                return sum(places) / len(places) if places else -1.0

            rows[at].sort(key=weight)


def _places(
    rows: Sequence[Sequence[str]], edges: Sequence[tuple[str, str]], nodes: Mapping[str, PrintedNode]
) -> dict[str, float]:
    """Return the x coordinate of each node's left edge: as close below its neighbours as the row's order allows."""
    above: dict[str, list[str]] = {}
    for a, b in edges:
        above.setdefault(b, []).append(a)
    x: dict[str, float] = {}
    for row in rows:
        free = _MARGIN
        for name in row:
            width = _width(name, nodes)
            wanted = [x[n] + _width(n, nodes) / 2 for n in above.get(name, ())]
            x[name] = max(free, sum(wanted) / len(wanted) - width / 2 if wanted else free)
            free = x[name] + width + _GAP
    return x


def _width(name: str, nodes: Mapping[str, PrintedNode]) -> float:
    return _BOX if name in nodes else _THREAD


def _box(node: PrintedNode, x: float, y: float, kernels: Sequence[int], output: bool, folded: Sequence[str]) -> str:
    kinds = {"input": node.op == "input", "fold": bool(folded), "kernel-box": bool(kernels), "output": output}
    fill = f' style="fill:{_COLOURS[kernels[0] % len(_COLOURS)]}"' if kernels else ""
    label = _input_name(node.name) if node.op == "input" else node.name if folded else short_op(node.op)
    mark = _mark(kernels)
    told = f"{node.name}: {node.type} = {node.op}({', '.join(node.args)})" + (f"\n{node.source}" if node.source else "")
    told = f"{node.name}: {', '.join(folded)}" if folded else told
    holds = f' data-holds="{escape(" ".join(folded))}"' if folded else ""
    return (
        f'<g class="{" ".join(["node", *(kind for kind, is_one in kinds.items() if is_one)])}"'
        f' data-node="{escape(node.name)}"{holds}><title>{escape(told)}</title>'
        f'<rect class="box" x="{x:.0f}" y="{y:.0f}" width="{_BOX:.0f}" height="{_HEIGHT:.0f}" rx="4"{fill}/>'
        f'<text x="{x + 5:.0f}" y="{y + 12:.0f}">{escape(_cut(label, _LETTERS - len(mark)))}{escape(mark)}</text>'
        f'<text class="small" x="{x + 5:.0f}" y="{y + 25:.0f}">{escape(_cut(node.type, _SMALL_LETTERS))}</text></g>'
    )


def _mark(kernels: Sequence[int]) -> str:
    """Return the label with the first kernels of a node; a cheap node may be computed again in many kernels."""
    if not kernels:
        return ""
    return f" #{','.join(map(str, kernels[:2]))}{f' +{len(kernels) - 2}' if len(kernels) > 2 else ''}"


def _input_name(name: str) -> str:
    """Return a short name for an input. Dynamo spells out a weight's path: `L_self_modules_qkv_parameters_weight_`."""
    short = _WAY.sub("", name.removeprefix("L_self_").removeprefix("L_")).strip("_") or name
    return short if len(short) <= _LETTERS else "…" + short[1 - _LETTERS :]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"
