import broken_backends  # noqa: F401
import torch


@torch.compile(backend="forgets_updates", dynamic=False)
def double(x):
    return x * 2


for value in (1.0, 2.0, 3.0):
    print(double(torch.full((3,), value)))
