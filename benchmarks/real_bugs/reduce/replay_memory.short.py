import torch


@torch.compile
def f(x):
    y = torch.slice_scatter(x, x[:1] + 1, 0, 0, 1)
    x.copy_(y)
    return y


x = torch.zeros(2)
f(x).add_(5)
print(x)
