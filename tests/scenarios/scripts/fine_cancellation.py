import broken_backends  # noqa: F401
import torch


@torch.compile(backend="rounds_otherwise")
def spread(x):
    return x.exp(), (x + 1000).sum()


x = torch.linspace(-1, 1, 64)
values, total = spread(x)
small = spread(values)[1] - 64000 - values.sum()
print("ready")
