# bfloat16 probabilities and targets, but float32 weights per class.
import torch
import torch.nn.functional as F


@torch.compile
def loss(p, target, weight):
    return F.binary_cross_entropy(p, target, weight=weight)


p = torch.full((2, 3), 0.25, dtype=torch.bfloat16)
value = loss(p, torch.ones_like(p), torch.tensor([1.0, 2.0, 3.0]))
print(value.dtype, value.item())
