# The same sizes, stored in another order.
import torch


@torch.compile
def f(x):
    return x.sum(dim=1), x.reshape(-1)[:4], x.is_contiguous()


x = torch.arange(12.0).reshape(3, 4)
print(f(x))
print(f(x.t().contiguous().t()))
