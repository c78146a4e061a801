# A crop came out empty.
import torch
import torch.nn.functional as F


@torch.compile
def to_size(image):
    return F.interpolate(image, size=(4, 4), mode="nearest")


print(tuple(to_size(torch.ones(1, 1, 2, 2)).shape))
print(tuple(to_size(torch.ones(1, 1, 0, 2)).shape))
