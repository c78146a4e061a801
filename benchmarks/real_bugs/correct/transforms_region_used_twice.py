# One region, two layers with weights of their own.
import torch


@torch.compiler.nested_compile_region
def layer(x, w):
    return torch.relu(x @ w) + x


@torch.compile(fullgraph=True)
def net(x, w1, w2):
    return layer(layer(x, w1), w2)


print(net(torch.ones(1, 2), torch.eye(2), torch.full((2, 2), -1.0)))
