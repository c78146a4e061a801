# A clamp limit that follows a schedule; each stage makes a compiled function of its own from the same code.
import torch
import torch.nn.functional as F


def make_stage(limit):
    @torch.compile
    def gated(x):
        gate, up = torch.chunk(x, 2, dim=-1)
        return F.silu(gate).clamp(max=limit) * up.clamp(min=-limit, max=limit)

    return gated


for limit in (1.0, 2.0, 4.0, 8.0):
    x = torch.tensor([[10.0, -10.0, 10.0, -10.0]], requires_grad=True)
    y = make_stage(limit)(x)
    y.sum().backward()
    print(limit, y.tolist(), x.grad.tolist())
