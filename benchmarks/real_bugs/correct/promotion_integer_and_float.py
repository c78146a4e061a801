# Integers, floats, booleans and Python numbers together.
import torch


@torch.compile
def mix(i, f, b):
    return i * 2, i / 2, i + f, b + i, b & (i > 1), f.sum() + i


i, f, b = torch.arange(3), torch.tensor([0.5, 1.5, 2.5]), torch.tensor([True, False, True])
for t in mix(i, f, b):
    print(t.dtype, t.tolist())
