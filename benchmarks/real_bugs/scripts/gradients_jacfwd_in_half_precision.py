# Forward-mode Jacobian of a small matrix chain in float16.
import torch


def chain(x):
    return torch.sum(torch.mm(torch.mm(torch.prod(x) + x, torch.sum(x) + x), torch.sum(x) + x))


x = (torch.arange(1, 10, dtype=torch.float16) / 16).reshape(3, 3)
print(torch.compile(torch.func.jacfwd(chain))(x))
