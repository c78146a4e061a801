# A stack of layers of two kinds, each layer one compiled region. All layers behave as the first.
import torch

region = torch.compiler.nested_compile_region


class Options:
    def __init__(self, gated, width):
        self.gated = gated
        self.width = width


class Layer(torch.nn.Module):
    def __init__(self, options, index):
        super().__init__()
        self.gated = options.gated
        values = torch.sin(torch.arange(options.width * options.width, dtype=torch.float32) + index)
        self.weight = torch.nn.Parameter(values.reshape(options.width, options.width) * 0.5)
        self.bias = torch.nn.Parameter(torch.full((options.width,), 0.1 * index))


def normalise(x):
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / (centred.var(dim=-1, keepdim=True, unbiased=False) + 1e-5).sqrt()


@region
def activate(layer, x):
    if layer.gated:
        return x * torch.sigmoid(x)
    return torch.relu(x)


@region
def block(layer, x):
    projected = normalise(x) @ layer.weight + layer.bias
    return x + activate(layer, projected)


class Stack(torch.nn.Module):
    def __init__(self, kinds, width):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(Options(g, width), i) for i, g in enumerate(kinds)])
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        for layer in self.layers:
            x = block(layer, x)
        return x * self.scale


def summary(y):
    return {"mean": round(y.mean().item(), 4), "row": [round(v, 3) for v in y[0].tolist()]}


stack = Stack([True, False, True, False], 4)
compiled = torch.compile(stack, backend="aot_eager", fullgraph=True)
x = torch.cos(torch.arange(8.0)).reshape(2, 4)
with torch.no_grad():
    print(summary(compiled(x)))
