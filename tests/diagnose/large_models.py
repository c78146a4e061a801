"""Programs of the size of real ones: a residual network of 200 nodes in ONNX, a transformer of 160 operators in torch.

Both are honest. Each has one place that no other part of it has: there a planted compiler goes wrong.
"""

RESNET = """
import numpy as np
from onnx import TensorProto, helper, numpy_helper

BLOCKS, WIDTH, ODD = 28, 4, 17  # the odd block ends in a Sigmoid instead of a Relu


def program():
    rng = np.random.default_rng(0)
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def convolution(name, value):
        weight = constant(f"{name}.w", rng.standard_normal((WIDTH, WIDTH, 3, 3)) * 0.1)
        nodes.append(helper.make_node("Conv", [value, weight], [name], pads=[1, 1, 1, 1]))
        scale, bias = constant(f"{name}.s", np.ones(WIDTH)), constant(f"{name}.b", np.zeros(WIDTH))
        mean, var = constant(f"{name}.m", np.zeros(WIDTH)), constant(f"{name}.v", np.ones(WIDTH))
        nodes.append(helper.make_node("BatchNormalization", [name, scale, bias, mean, var], [f"{name}.n"]))
        return f"{name}.n"

    value = "x"
    for block in range(BLOCKS):
        first = convolution(f"{block}.1", value)
        nodes.append(helper.make_node("Relu", [first], [f"{block}.r"]))
        second = convolution(f"{block}.2", f"{block}.r")
        nodes.append(helper.make_node("Add", [second, value], [f"{block}.a"]))
        nodes.append(helper.make_node("Sigmoid" if block == ODD else "Relu", [f"{block}.a"], [f"{block}.y"]))
        value = f"{block}.y"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["pooled"]))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"]))
    weight = constant("w", rng.standard_normal((WIDTH, 3)))
    nodes.append(helper.make_node("MatMul", ["flat", weight], ["scores"]))
    nodes.append(helper.make_node("Softmax", ["scores"], ["y"]))
    shape = [1, WIDTH, 6, 6]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])]
    graph = helper.make_graph(nodes, "resnet", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return model, {"x": rng.standard_normal(shape).astype(np.float32)}
"""

TRANSFORMER = """
import torch
from torch.nn import functional as F

LAYERS, WIDTH, ODD = 10, 16, 5  # the odd layer has a softsign instead of a gelu


class Layer(torch.nn.Module):
    def __init__(self, odd):
        super().__init__()
        self.odd = odd
        self.q, self.k, self.v, self.o = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = torch.nn.Linear(WIDTH, 32), torch.nn.Linear(32, WIDTH)
        self.before, self.after = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)

    def forward(self, x):
        n = self.before(x)
        q, k, v = self.q(n), self.k(n), self.v(n)
        scores = torch.matmul(q, k.transpose(-2, -1)) / 4.0
        x = x + self.o(torch.matmul(torch.softmax(scores, dim=-1), v))
        wide = self.up(self.after(x))
        return x + self.down(F.softsign(wide) if self.odd else F.gelu(wide))


def program():
    torch.manual_seed(0)
    layers = torch.nn.Sequential(*(Layer(number == ODD) for number in range(LAYERS)))
    return layers, (torch.randn(1, 5, WIDTH),)
"""
