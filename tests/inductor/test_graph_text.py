"""Reading graphs as torch.fx prints them; statistics. No torch is needed."""

from __future__ import annotations

import pytest

from driftline.inductor.graph_text import read_graph
from driftline.inductor.kernels import read_kernels
from driftline.inductor.statistics import measure

TEXT = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "bf16[3, 8][8, 1]cpu", w: "bf16[8, 16][16, 1]cpu"):
        l_x_ = L_x_

        # File: /home/me/net.py:15 in forward, code: y = torch.relu(x @ w)
        mm: "bf16[3, 16][16, 1]cpu" = torch.ops.aten.mm.default(l_x_, w);  l_x_ = w = None
        relu: "bf16[3, 16][16, 1]cpu" = torch.ops.aten.relu.default(mm);  mm = None

        # No stacktrace found for following nodes
        view: "bf16[48][1]cpu" = torch.ops.aten.view.default(relu, [48]);  relu = None
        open: "f32[s0][1]cpu" = torch.ops.aten.nonzero.default(view)
        return (view, open)
"""


def test_a_graph_is_read_with_types_arguments_and_the_users_lines() -> None:
    graph = read_graph(TEXT)
    assert [(node.name, node.type) for node in graph.inputs] == [("L_x_", "bf16[3, 8]"), ("w", "bf16[8, 16]")]
    mm, relu, view, nonzero = graph.nodes
    assert (mm.op, mm.args, str(mm.source)) == ("aten.mm.default", ("L_x_", "w"), "/home/me/net.py:15")
    assert relu.source is not None and relu.source.code == "y = torch.relu(x @ w)"
    assert view.source is None and nonzero.elements is None
    assert graph.outputs == ("view", "open")


def test_a_graph_without_a_name_is_read() -> None:
    assert read_graph(TEXT.replace("class GraphModule(", "class <lambda>(")) == read_graph(TEXT)


def test_statistics_count_what_the_shapes_say() -> None:
    found = measure(read_graph(TEXT))
    assert found.flops == 2 * 3 * 16 * 8 + 3 * 16  # a product, then one for each element; a view is free
    assert found.input_bytes == 2 * (3 * 8 + 8 * 16)
    assert found.peak_bytes == found.input_bytes + 2 * (3 * 16) * 2  # mm and relu alive at once; the view is relu's
    assert found.unknown_sizes == 1
    assert found.dtypes == {"bf16": 5, "f32": 1}


def test_what_is_no_graph_is_refused() -> None:
    for text in ("", "x = 1", "class A:\n  pass", "((("):
        with pytest.raises(ValueError, match="not a graph"):
            read_graph(text)


def test_kernels_are_read_from_generated_code() -> None:
    code = """
triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
import triton
def triton_poi_fused_add_0(): ...
''', device_str='cuda')

def call(args):
    # [Provenance debug handles] triton_poi_fused_add_0:1
    triton_poi_fused_add_0.run(buf0)
    # [Provenance debug handles] extern_kernels.mm:2
    extern_kernels.mm(buf0, arg, out=buf1)
"""
    stacks = {"extern_kernels.mm:2": ['  File "net.py", line 7, in forward\n    x @ w\n']}
    add, mm = read_kernels(code, {"triton_poi_fused_add_0:1": ["add"]}, stacks)
    assert (add.language, add.nodes) == ("Triton", ("add",)) and "import triton" in add.source
    assert (mm.language, mm.lines, mm.source) == ("library", ("net.py:7",), "")
