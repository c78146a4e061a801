import torch


@torch.compile(backend="aot_eager")
def f(a, b):
    b.zero_()
    return a + 0


f(torch.ones(2), torch.ones(2))
x = torch.ones(3)
print(f(x[:2], x[1:]))
