# Bytes are negated, which wraps around, before they are summed.
import torch


@torch.compile
def total(x):
    y = -x.abs()
    return torch.cat([y, y]).sum()


print(total(torch.tensor([200, 100, 1], dtype=torch.uint8)).item())
