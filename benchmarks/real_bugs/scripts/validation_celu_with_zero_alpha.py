# alpha decays to zero.
import torch


@torch.compile(dynamic=True)
def activate(x, alpha):
    return torch.celu_(x, alpha)


for alpha in (1.0, 0.0):
    print(alpha, activate(torch.tensor([-2.0, 0.0, 3.0]), alpha))
