# Features reach the pooled maximum directly and through a matrix; the maximum is over the rows.
import torch


@torch.compile
def pooled(x, w1, w2):
    h = x @ w1
    h = h + h @ w2
    return h.amax(dim=1).float().sum()


torch.manual_seed(0)
x = torch.randn(3, 20, 8, dtype=torch.bfloat16, requires_grad=True)
w1, w2 = (torch.randn(8, 8, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
pooled(x, w1, w2).backward()
print("rows of x with a gradient:", int((x.grad.float().abs().sum(-1) > 0).sum()))
