import torch


@torch.compile(backend="aot_eager")
def f(x):
    def g():
        yield x + 1
        return 5

    return g()


g = f(torch.zeros(1))
next(g)
try:
    next(g)
except StopIteration as stop:
    print(stop.value)
