# A drop rate of 150 per cent.
import torch


@torch.compile
def drop(x, rate):
    keep = torch.bernoulli(torch.full_like(x, 1 - rate))
    return x * keep


print(drop(torch.ones(4), 0.0))
print(drop(torch.ones(4), 1.5))
