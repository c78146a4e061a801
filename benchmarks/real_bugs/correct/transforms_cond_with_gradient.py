# Gradients through either branch.
import torch


@torch.compile
def loss(x):
    return torch.cond(x.mean() > 1, lambda t: t.pow(2), lambda t: t * 5, (x,)).sum()


for value in (0.5, 2.0):
    x = torch.full((2,), value, requires_grad=True)
    loss(x).backward()
    print(x.grad)
