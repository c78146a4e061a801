# A Python number does not widen a half-precision tensor.
import torch


@torch.compile
def scale(x):
    return x * 1.5, x + 1, x > 0.25


for t in scale(torch.tensor([0.25, 2.0], dtype=torch.bfloat16)):
    print(t.dtype, t.tolist())
