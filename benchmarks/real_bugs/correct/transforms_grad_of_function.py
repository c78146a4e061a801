# Gradient and value by torch.func.
import torch


def energy(x):
    return (x**2).sum() + x[0] * x[1]


@torch.compile
def both(x):
    return torch.func.grad_and_value(energy)(x)


print(both(torch.tensor([1.0, 2.0, 3.0])))
