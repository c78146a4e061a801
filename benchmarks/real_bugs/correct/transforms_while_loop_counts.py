# Halves until it is small enough.
import torch
from torch._higher_order_ops import while_loop


@torch.compile
def shrink(x):
    def large(n, y):
        return y.sum() > 1

    def half(n, y):
        return n + 1, y / 2

    return while_loop(large, half, (torch.tensor(0), x))


print(shrink(torch.full((4,), 8.0)))
print(shrink(torch.full((4,), 0.1)))
