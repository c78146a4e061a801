import torch


class State:
    def __init__(self, x):
        self.x = x


state = State(torch.zeros(1))


@torch.compiler.nested_compile_region
def cell():
    return state.x + 1


@torch.compile(backend="aot_eager", fullgraph=True)
def f(x):
    global state
    for _ in range(2):
        state = State(x)
        x = cell()
    return x


print(f(torch.zeros(1)))
