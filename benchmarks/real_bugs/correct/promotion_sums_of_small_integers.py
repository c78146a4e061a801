# Sums of bytes and booleans are wide.
import torch


@torch.compile
def totals(x, mask):
    return x.sum(), x.to(torch.float32).mean(), mask.sum(), x[mask].sum()


for t in totals(torch.full((5,), 200, dtype=torch.uint8), torch.tensor([True, False, True, True, False])):
    print(t.dtype, t.item())
