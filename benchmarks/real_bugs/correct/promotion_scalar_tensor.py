# A zero-dimensional double does not widen a float vector.
import torch


@torch.compile
def shift(x, s):
    return x + s, s * 2


for t in shift(torch.ones(2), torch.tensor(0.5, dtype=torch.float64)):
    print(t.dtype, t.tolist())
