# beta comes from a configuration file and has the wrong sign.
import torch
import torch.nn.functional as F


@torch.compile
def loss(a, b):
    return F.smooth_l1_loss(a, b, beta=-1.0)


print(loss(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0])))
