import torch


@torch.compile
def f(x):
    y = x + 1
    return y[:1], y[1:], y.detach()


x = torch.ones(2, requires_grad=True)
a, b, _ = f(x)
(a + b).backward()
print(x.grad)
