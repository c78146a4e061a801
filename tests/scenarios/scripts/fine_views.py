import torch


def rows(x, out):
    out.copy_(x.t())
    a, b = x.chunk(2)
    return a, b, out, x.detach()


x = torch.randn(4, 4, requires_grad=True)
compiled = torch.compile(rows, backend="aot_eager", fullgraph=True, dynamic=True)
for _ in range(2):
    a, b, out, kept = compiled(x, torch.zeros(4, 4))
    (a * b).sum().backward()
print(x.grad.shape, kept.requires_grad)
