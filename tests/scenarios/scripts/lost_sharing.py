import broken_backends  # noqa: F401
import torch


@torch.compile(backend="copies_outputs")
def halves(x):
    return x[:2], x[2:]


x = torch.arange(4.0)
first, second = halves(x)
first.zero_()
print(x)
