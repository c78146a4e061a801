# Layers of two kinds share one compiled region, in which another region looks at the kind.
import torch


class Layer(torch.nn.Module):
    def __init__(self, cosine):
        super().__init__()
        self.cosine = cosine


@torch.compiler.nested_compile_region
def activation(layer, x):
    return x.cos() if layer.cosine else x * 0


@torch.compiler.nested_compile_region
def block(layer, x):
    return activation(layer, x) + 1


layers = [Layer(True), Layer(False), Layer(True), Layer(False)]


@torch.compile(backend="aot_eager", fullgraph=True)
def net(x):
    return sum(block(layer, x) for layer in layers)


print(net(torch.zeros(3)))
