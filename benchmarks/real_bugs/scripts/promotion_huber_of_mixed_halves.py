# Huber loss between float16 predictions and bfloat16 targets, not reduced.
import torch
import torch.nn.functional as F


@torch.compile
def loss(prediction, target):
    return F.huber_loss(prediction, target, reduction="none")


a = torch.tensor([0.0, 1.0, 5.0])
for first, second in ((torch.float16, torch.bfloat16), (torch.bfloat16, torch.float32)):
    value = loss(a.to(first), torch.zeros(3).to(second))
    print(first, second, value.dtype, value.tolist())
