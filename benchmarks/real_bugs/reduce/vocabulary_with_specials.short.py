import torch


class S(set):
    def __iter__(self):
        return iter([0])


@torch.compile(backend="aot_eager")
def f(x, a, b):
    return x + 1 if a == b else x * 2


print(f(torch.zeros(1), {1}, S({1})))
