# The forward runs under autocast, with one part kept in full precision; the backward runs outside of it.
import torch


@torch.compile(backend="aot_eager")
def precise(x, w):
    with torch.autocast("cpu", enabled=False):
        return (x @ w).pow(2).sum()


x = torch.tensor([[1.001, 2.003], [0.997, 3.001]], requires_grad=True)
w = torch.tensor([[1.0, 0.5], [0.25, 2.0]], requires_grad=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = precise(x, w)
loss.backward()
print(loss.dtype, round(loss.item(), 4))
print([[round(v, 4) for v in row] for row in w.grad.tolist()])
