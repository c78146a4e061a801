import torch

region = torch.compiler.nested_compile_region


class Layer(torch.nn.Module):
    def __init__(self, on):
        super().__init__()
        self.on = on


@region
def inner(layer, x):
    return x + 1 if layer.on else x - 1


@region
def outer(layer, x):
    return inner(layer, x)


layers = Layer(True), Layer(False)


@torch.compile(backend="aot_eager", fullgraph=True)
def f(x):
    return [outer(layer, x) for layer in layers]


print(f(torch.zeros(1)))
