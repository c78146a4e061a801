# The first draw only gives the shape of the second.
import torch


@torch.compile(backend="aot_eager")
def choose():
    scores = torch.rand(2, 5)
    return torch.rand(*scores.shape).argsort(dim=-1)


torch.manual_seed(1)
print(choose())
print(torch.rand(3))
