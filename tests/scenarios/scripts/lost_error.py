import broken_backends  # noqa: F401
import torch


@torch.compile(backend="swallows_errors")
def pick(x, i):
    return x[i]


try:
    pick(torch.ones(3, 2), torch.tensor([7]))
    print("no error")
except IndexError as error:
    print("error", type(error).__name__)
