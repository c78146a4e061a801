# A reverse-mode Jacobian.
import torch


@torch.compile
def jacobian(x):
    return torch.func.jacrev(lambda t: torch.stack([t[0] * t[1], t[1] ** 2]))(x)


print(jacobian(torch.tensor([3.0, 4.0])))
