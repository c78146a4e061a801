# Nothing at all goes in now and then.
import torch


@torch.compile
def f(x):
    return x.sum(), torch.relu(x) + 1, x.reshape(-1, 2).shape[0]


for rows in (2, 0, 3, 0):
    total, y, n = f(torch.ones(rows, 2))
    print(total.item(), tuple(y.shape), n)
