# Two regions, each of which wraps another one.
import torch
from torch.compiler import nested_compile_region


@nested_compile_region
def double(x):
    return x * 2


@nested_compile_region
def shift(x):
    return x + 100


@nested_compile_region
def first(x):
    return double(x)


@nested_compile_region
def second(x):
    return shift(x)


class Model(torch.nn.Module):
    def forward(self, x):
        return first(x) + second(x)


with torch.no_grad():
    program = torch.export.export(Model(), (torch.ones(3),), strict=False)
    print(program.module()(torch.ones(3)))
