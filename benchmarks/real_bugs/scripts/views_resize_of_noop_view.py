# A scratch view of an intermediate is resized; the intermediate itself must keep its size.
import torch


@torch.compile
def f(x):
    base = x + 1
    scratch = base.view(-1)
    scratch.resize_(6)
    return base * 2, base.shape


with torch.no_grad():
    out, shape = f(torch.zeros(1))
    print(tuple(shape), tuple(out.shape))
