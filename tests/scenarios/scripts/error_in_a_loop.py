import broken_backends  # noqa: F401
import torch
from torch._higher_order_ops.while_loop import while_loop


@torch.compile(backend="cannot_compile")
def doubled(x):
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1]


print(doubled(torch.ones(2)))
