import torch


@torch.compile
def f(x):
    y = x + 1
    y.view(-1).resize_(2)
    return y.shape


print(f(torch.ones(1)))
