# Positions of an all-valid mask, counted in the type of the model.
import torch


@torch.compile
def positions(batch, length):
    mask = torch.ones((batch, length), dtype=torch.bool)
    return mask.cumsum(1, dtype=torch.bfloat16)


p = positions(2, 3)
print(p.dtype, p)
print((p * 0.1).dtype)
