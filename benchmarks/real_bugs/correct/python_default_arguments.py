# Defaults of several kinds.
import torch


@torch.compile
def affine(x, scale=2.0, shift=None, *, names=("a", "b")):
    y = x * scale
    if shift is not None:
        y = y + shift
    return y, len(names)


x = torch.ones(2)
print(affine(x))
print(affine(x, shift=torch.ones(2)))
print(affine(x, 3.0, names=("a",)))
