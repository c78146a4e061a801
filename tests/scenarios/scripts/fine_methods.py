import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def scaled(self, x, *, by=2.0):
        return x * self.weight * by

    def forward(self, x):
        return self.scaled(x, by=3.0)


block = Block()
block.compile(backend="aot_eager")
scaled = torch.compile(block.scaled, backend="aot_eager", mode=None)
with torch.no_grad():
    print(block(torch.ones(3)), scaled(torch.ones(3)))
with torch.autocast("cpu", dtype=torch.bfloat16):
    linear = torch.compile(nn.Linear(3, 3), backend="aot_eager")
    print(linear(torch.ones(2, 3)).dtype)
block.eval()
grads = torch.autograd.grad(block(torch.ones(3)).sum(), block.weight)
