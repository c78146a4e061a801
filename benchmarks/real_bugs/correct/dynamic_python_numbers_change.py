# Whole and broken numbers as arguments.
import torch


@torch.compile
def ramp(x, n, slope):
    return x + slope * n, x.repeat(n)


for n, slope in ((1, 0.5), (2, 1.5), (3, -2.0), (4, 0.0)):
    y, r = ramp(torch.ones(2), n, slope)
    print(y.tolist(), r.shape[0])
