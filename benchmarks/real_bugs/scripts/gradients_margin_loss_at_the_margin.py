# The score difference rounds to the margin in bfloat16, so the loss is exactly zero there.
import torch
import torch.nn.functional as F


@torch.compile
def loss(better, worse, target):
    return F.margin_ranking_loss(better, worse, target, margin=1.7)


better = torch.full((4,), 1.703125, dtype=torch.bfloat16, requires_grad=True)
worse = torch.zeros(4, dtype=torch.bfloat16, requires_grad=True)
value = loss(better, worse, torch.ones(4, dtype=torch.bfloat16))
value.backward()
print(value.item(), better.grad, worse.grad)
