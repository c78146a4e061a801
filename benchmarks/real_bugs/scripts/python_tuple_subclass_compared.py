# A shape class of our own, compared with a constant.
import torch


class Shape(tuple):
    def __new__(cls, *sizes):
        return super().__new__(cls, sizes)


SQUARE = Shape(2, 2)


def route(x, shape):
    if shape != SQUARE:
        return x * 0.5
    return x + 1


compiled = torch.compile(route, backend="aot_eager", fullgraph=True)
print(compiled(torch.zeros(2), Shape(2, 2)))
print(compiled(torch.ones(2), Shape(2, 3)))
