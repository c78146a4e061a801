import torch


@torch.compile(backend="aot_eager", fullgraph=True)
def show(x):
    torch._dynamo.graph_break()
    return x + 1


show(torch.ones(2))
