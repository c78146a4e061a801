# The same seed gives the same numbers in the same mode.
import torch


@torch.compile
def noise(n):
    return torch.rand(n) + torch.randn(n)


torch.manual_seed(4)
a = noise(6)
b = noise(6)
torch.manual_seed(4)
print(torch.equal(a, noise(6)), torch.equal(a, b))
