# Cut off towards zero, and back.
import torch


@torch.compile
def cut(x):
    return x.to(torch.int32), x.int().float() * 0.5, x.bool()


for t in cut(torch.tensor([-2.7, -0.2, 0.0, 3.9])):
    print(t.dtype, t.tolist())
