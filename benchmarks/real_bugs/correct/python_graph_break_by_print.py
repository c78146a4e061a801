# A print in the middle of the computation.
import torch


@torch.compile
def noisy(x):
    y = x.sin() + 1
    print("middle:", round(y.sum().item(), 4))
    return (y * 2).round(decimals=3)


print(noisy(torch.zeros(3)))
print(noisy(torch.ones(3)))
