"""What the pages call the reader's own: models that are right, and one that a compiler gets wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

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


# A Pad with zeros becomes the padding of MaxPool, where it counts for nothing: wrong in the onnxruntime that is pinned.
WRONG = """\
<ir_version: 8, opset_import: ["": 18]> m (float[1,1,2,2] x) => (float[1,1,3,3] y)
<int64[8] border = {0,0,1,1,0,0,1,1}>
{ a = Abs(x) n = Neg(a) p = Pad(n, border) z = MaxPool<kernel_shape = [2, 2]>(p) y = Tanh(z) }
"""


@pytest.fixture
def wrong_model(tmp_path: Path) -> Path:
    """model.onnx, on which ONNX Runtime is wrong whatever x is."""
    onnx.save(onnx.parser.parse_model(WRONG), tmp_path / "model.onnx")
    return tmp_path
