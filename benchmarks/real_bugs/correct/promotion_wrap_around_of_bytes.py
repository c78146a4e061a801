# Bytes wrap around.
import torch


@torch.compile
def wrap(x):
    return x + 100, x * 2, -x


for t in wrap(torch.tensor([0, 100, 200, 255], dtype=torch.uint8)):
    print(t.dtype, t.tolist())
