import torch


class A:
    pass


P, Q = A(), A()


class B:
    def __init__(self):
        self.s = P


@torch.compile(backend="aot_eager")
def f(b, x):
    if b.s is P:
        b.s = Q
        return x + 1
    return x


b = B()
x = torch.zeros(1)
print(f(b, x), f(b, x))
