# A branch inside the graph.
import torch


@torch.compile
def step(x):
    return torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 10, (x,))


print(step(torch.ones(3)), step(-torch.ones(3)))
