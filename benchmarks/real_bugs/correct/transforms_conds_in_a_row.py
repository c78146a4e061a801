# Two branches one after the other, the second on the result of the first.
import torch


@torch.compile
def settle(x):
    y = torch.cond(x.max() > 4, lambda t: t / 2, lambda t: t + 0.5, (x,))
    return torch.cond(y.sum() > 3, lambda t: t - 1, lambda t: t * 1, (y,))


for start in (1.0, 8.0):
    print(settle(torch.tensor([start, 0.5])))
